// route, pick_copies, count_experts, permute, regroup, combine: which experts see a token, and how
// their answers come back together.
//
// Source: DeepSeek-V3 (arXiv 2412.19437), section 2.1.2, with the router's groups as in its code.
#pragma once

#include "ops/cost.h"
#include "tensor/tensor.h"

namespace glint {

//   s = sigmoid(logits), b = s + bias                                     f32
//   groups (n_group > 1): score = sum of the 2 largest b of the group; only the topk_group best
//                         groups take part, ties to the lower group
//   ids = the k largest b, best first, ties to the lower id
//   w   = s[ids]; w = w / (sum(w) + 1e-20) if norm_topk_prob; w = w * routed_scaling_factor
//
// ids are distinct experts even where logits are NaN. A row of padding (position -1) gets ids of -1
// and weights of 0.
//
// With `given` the ids of an earlier pass are read in place of a choice, in their order; they are
// distinct, and -1 in rows of padding.
struct RouteArgs {
  Tensor logits = {};     // [T, E] f32
  Tensor bias = {};       // [E] f32: e_score_correction_bias, used to choose only
  Tensor positions = {};  // [T] i32; empty: no row is padding
  int n_group = 1;
  int topk_group = 1;
  bool norm_topk_prob = true;
  float routed_scaling_factor = 1;
  Tensor ids = {};  // [T, k] i32, written; or read
  bool given = false;
  Tensor weights = {};  // [T, k] f32, written
};
void check(const RouteArgs& args);
OpCost cost(const RouteArgs& args);

// Which copy of each chosen expert answers, where experts have several: that of row t, at position
// p, which chose e, is
//   slots[t, j] = copies[first[e] + h % (first[e + 1] - first[e])]
//   h = (p * 0x9E3779B1 + t * 0x85EBCA77 mod 2^32) / 2^16
// so that both the rows of a sequence and those of one position go to all copies, and nothing but
// the row decides. An id of -1 stays -1.
struct PickCopiesArgs {
  Tensor ids = {};        // [T, k] i32 in [-1, E)
  Tensor positions = {};  // [T] i32
  Tensor first = {};      // [E + 1] i32, ascending from 0 to P; each expert has one copy or more
  Tensor copies = {};     // [P] i32
  Tensor slots = {};      // [T, k] i32, written
};
void check(const PickCopiesArgs& args);
OpCost cost(const PickCopiesArgs& args);

// The copy of an expert that a row goes to, as the formula of PickCopiesArgs says.
inline std::int32_t copy_of_row(std::int64_t row, std::int32_t position, std::int32_t num_copies) {
  const std::uint32_t mixed = static_cast<std::uint32_t>(position) * 0x9E3779B1u +
                              static_cast<std::uint32_t>(row) * 0x85EBCA77u;
  return static_cast<std::int32_t>((mixed >> 16) % static_cast<std::uint32_t>(num_copies));
}

//   counts[l][ids[l * T + t, j]] += 1     modulo 2^32, for each l, t and j whose id is not -1
struct CountExpertsArgs {
  Tensor ids = {};     // [L * T, k] i32 in [-1, E)
  Tensor counts = {};  // [L, E] i32, updated
};
void check(const CountExpertsArgs& args);
OpCost cost(const CountExpertsArgs& args);

// Sorts the T * k (token, choice) pairs by expert, stably: pair r of the result belongs to expert e
// where offsets[e] <= r < offsets[e + 1], comes from token rows[r], and is found again at r =
// places[t, j]. A pair whose id is -1 belongs to none: its place is -1, and rows[r] is not written
// for r >= offsets[E].
struct PermuteArgs {
  Tensor ids = {};      // [T, k] i32 in [-1, E)
  Tensor rows = {};     // [T * k] i32, written
  Tensor offsets = {};  // [E + 1] i32, written
  Tensor places = {};   // [T, k] i32, written
};
void check(const PermuteArgs& args);
OpCost cost(const PermuteArgs& args);

// Rows that several ranks sent, each sorted by expert, in one order by expert. Rank s sent
// offsets[s][first + count] - offsets[s][first] rows, which lie behind those of the ranks before
// it; of them the experts first .. first + count - 1 have theirs in this order. As in permute, row
// r of the result belongs to expert first + g where groups[g] <= r < groups[g + 1], rows[r] is
// where it was received, and places[i] the r of received row i, or -1 where i >= groups[count];
// rows[r] is not written for r >= groups[count].
struct RegroupArgs {
  Tensor offsets = {};  // [S, E + 1] i32: PermuteArgs::offsets of every rank
  std::int64_t first = 0;
  Tensor rows = {};    // [R] i32, written
  Tensor groups = {};  // [count + 1] i32, written; groups[count] <= R
  Tensor places = {};  // [R] i32, written
};
void check(const RegroupArgs& args);
OpCost cost(const RegroupArgs& args);

//   out[t] = sum_j weights[t,j] * y[places[t,j]] + shared[t]      over j whose place is not -1
//
// in f32, j ascending and `shared` last, with one cast.
struct CombineArgs {
  Tensor y = {};        // [T * k, D] f32 or bf16
  Tensor places = {};   // [T, k] i32
  Tensor weights = {};  // [T, k] f32
  Tensor shared = {};   // [T, D] dtype of y, or empty
  Tensor out = {};      // [T, D] dtype of y, written
};
void check(const CombineArgs& args);
OpCost cost(const CombineArgs& args);

// Two backends may differ in the last bit of s, and so in the order of near-equal experts: where
// ids differ, their b must be this near. weights are those of the ids at hand, to kMoeTolerance.
inline constexpr double kRouteSlack = 1e-6;

inline constexpr OpTolerance kMoeTolerance = {.f32 = 2e-6, .bf16 = 5e-4};

}  // namespace glint
