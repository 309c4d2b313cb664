// sample, argmax, token_log_probs: from logits to tokens.
//
// A token is the largest of numbers that depend on its own logit, its row's largest and on
// (seed, position, id) alone, and every sum on the way is of integers: so all backends draw the
// same token from the same logits, in whatever order they look at them. The arithmetic is in
// sampling_math.h.
#pragma once

#include "ops/cost.h"
#include "tensor/tensor.h"

namespace glint {

// For row r of the logits z, over the ids i < num_ids:
//
//   1. x[i] = z[i]; plus added where the row has an edit of i; penalized (sampling_math.h) where it
//      has a seat and i a count there, or is one of its drafts; -infinity where the row has a mask
//      and bit i of it is not set.
//   2. No token (kNotNumbers) if a z[i] is NaN or +infinity, or if all are -infinity; none
//   (kNoToken)
//      if every x[i] is -infinity.
//   3. With scale 0 the token is the lowest i whose x[i] is the largest.
//   4. Else s[i] = (x[i] - max x) * scale and w[i] = exp_weight(s[i]), and what may come is a
//   prefix
//      of the ids in order of falling x, then rising i: as long as w[i] >= min_p and w[i] > 0; of
//      these the first top_k; of these the fewest whose weight_units(w) add up to top_p of the
//      units of all of these, but one at least.
//   5. The token is, of that prefix, the i with the largest s[i] + gumbel(seed, position, i); ties
//      go to the lower i.
//
// That has the distribution softmax(s) of what may come: Gumbel-max.
struct SampleArgs {
  Tensor logits = {};     // [R, V] f32; rows may be strided
  Tensor scales = {};     // [R] f32: 1 / temperature; 0: the most likely token
  Tensor top_k = {};      // [R] i32; 0: all
  Tensor top_p = {};      // [R] f32 in (0, 1]
  Tensor min_p = {};      // [R] f32 in [0, 1]
  Tensor seeds = {};      // [R, 2] i32: the low half, the high half
  Tensor positions = {};  // [R] i32: of the token
  // Masks: bit (i % 32) of word i / 32 says whether i may come; all three may be empty tensors.
  Tensor masks = {};      // [M, W] i32, W * 32 >= num_ids
  Tensor mask_rows = {};  // [R] i32 < M: the row's mask; -1: none
  // Row r's edits are [edit_begins[r], edit_begins[r + 1]) of the lists; ids differ within a row.
  Tensor edit_begins = {};  // [R + 1] i32, rising, from 0 to at most N
  Tensor edit_ids = {};     // [N] i32 < num_ids
  Tensor edit_values = {};  // [N] f32: added
  // Penalties of what a sequence has said so far; all four may be empty tensors.
  Tensor counts = {};     // [S, W] i32, W >= num_ids: by seat (ops/sequences.h)
  Tensor seats = {};      // [R] i32 < S: the row's; -1: it has no penalties
  Tensor penalties = {};  // [R, 3, 2] i32: repetition (> 0), presence, frequency as halves of f64
  // [R] i32: the draft that the row runs, -1: none. A row counts it as said, and those of the rows
  // right before, up to one that has none.
  Tensor drafts = {};
  Tensor work = {};          // [R, V] f32: scratch, written; may be empty where logits stay
  std::int64_t num_ids = 0;  // in [1, V]; ids from there on never come
  Tensor tokens = {};        // [R] i32, written
};
void check(const SampleArgs& args);
OpCost cost(const SampleArgs& args);

// In place of a token.
inline constexpr std::int32_t kNotNumbers = -1;  // the logits are none
inline constexpr std::int32_t kNoToken = -2;     // none may come

//   tokens[r] = the lowest i < num_ids whose logits[r][i] is the largest; NaN is less than all
struct ArgmaxArgs {
  Tensor logits = {};  // [R, V] f32; rows may be strided
  std::int64_t num_ids = 0;
  Tensor tokens = {};  // [R] i32, written
};
void check(const ArgmaxArgs& args);
OpCost cost(const ArgmaxArgs& args);

// For n of N: z = logits[r] over all of V with r = rows[n], before temperature, filters and edits,
//
//   log_probs[n] = ln softmax(z)[ids[r]]
//   ranks[n]     = 1 + the number of z[i] > z[ids[r]]
//   top_ids[n]   = the K ids < num_ids with the largest z, falling, ties by rising id; then -1
//   top_log_probs[n] = theirs; 0 beside an id of -1
//
// with the sum of exponentials in f64. A row with NaN or +infinity gives NaN, rank 1 and ids of -1,
// and a negative ids[r], which sample writes in place of a token, NaN and rank 1.
struct TokenLogProbsArgs {
  Tensor logits = {};         // [R, V] f32; rows may be strided
  Tensor rows = {};           // [N] i32 < R
  Tensor ids = {};            // [R] i32 < V
  std::int64_t num_ids = 0;   // in [1, V]
  Tensor log_probs = {};      // [N] f32, written
  Tensor ranks = {};          // [N] i32, written
  Tensor top_ids = {};        // [N, K] i32, written; K = 0: none
  Tensor top_log_probs = {};  // [N, K] f32, written
};
void check(const TokenLogProbsArgs& args);
OpCost cost(const TokenLogProbsArgs& args);

inline constexpr double kTokenLogProbsTolerance = 2e-6;

}  // namespace glint
