// place_rows, place_draws, accept, keep_rows, count_tokens: the rows of a step, some of whose
// tokens and positions only the device knows yet. A sequence that runs has a seat, and its length,
// its last token and what it has said lie in tables by seat: so a step can follow another one
// before the host has seen what that one sampled, and how many of its drafts were right.
#pragma once

#include "ops/cost.h"
#include "ops/kv_layout.h"
#include "tensor/tensor.h"

namespace glint {

// Slice s of S is (begin, count, first, seat): rows [begin, begin + count) of the step. With
// cut = rejected[seat] where there is a seat and `rejected`, else 0, and i < count - cut, row
// t = begin + i runs
//
//   positions[t] = first + i                               where there is no seat (-1)
//                  first + i + lengths[seat] + cut         where there is one
//   ids[t]       = tokens[t]                               where it is >= 0
//                  last[seat]                              where it is -1 and there is a seat
//                  guesses[-2 - tokens[t]]                 where it is less, if that is >= 0
//                  -1                                      else
//   slots[t]     = page_table[s][positions[t] / kPageSize] * kPageSize + positions[t] % kPageSize
//   seqs[t]      = s
//
// The other rows are padding: -1 in all four (BatchView).
struct PlaceRowsArgs {
  Tensor tokens = {};      // [T] i32
  Tensor slices = {};      // [S, 4] i32, without overlap, in order of their rows
  Tensor page_table = {};  // [S, P] i32
  Tensor last = {};        // [N] i32: by seat, as the next two; read where a slice has one
  Tensor lengths = {};     // [N] i32
  Tensor rejected = {};    // [N] i32; may be an empty tensor
  Tensor guesses = {};     // [G] i32
  Tensor ids = {};         // [T] i32, written
  Tensor positions = {};   // likewise
  Tensor slots = {};       // likewise
  Tensor seqs = {};        // likewise
};
void check(const PlaceRowsArgs& args);
OpCost cost(const PlaceRowsArgs& args);

// The rows that tokens are drawn from:
//
//   positions[r] += lengths[seats[r]]         where there is a seat
//   drafts[r]     = guesses[-2 - drafts[r]]   where it is less than -1
struct PlaceDrawsArgs {
  Tensor positions = {};  // [R] i32, updated
  Tensor drafts = {};     // [R] i32, updated
  Tensor seats = {};      // [R] i32, < N
  Tensor lengths = {};    // [N] i32
  Tensor guesses = {};    // [G] i32
};
void check(const PlaceDrawsArgs& args);
OpCost cost(const PlaceDrawsArgs& args);

// Draw s of S is (begin, count, seat, length): of rows [begin, begin + count) the first runs a
// sequence's last token, and the others drafts of those that follow. As many tokens are taken as
// come before the first that is negative, and before the first behind a draft that is not the token
// of the row before. With n of them, where the seat is not negative,
//
//   last[seat]     = tokens[begin + n - 1], if n > 0
//   lengths[seat]  = n + length, or, where that is negative, n + lengths[seat]
//   rejected[seat] = count - n
struct AcceptArgs {
  Tensor tokens = {};    // [R] i32: drawn
  Tensor drafts = {};    // [R] i32: the draft that the row runs; read behind a slice's first row
  Tensor draws = {};     // [S, 4] i32; seats < N are distinct but for those that are negative
  Tensor last = {};      // [N] i32, updated
  Tensor lengths = {};   // [N] i32, updated
  Tensor rejected = {};  // [N] i32, updated
};
void check(const AcceptArgs& args);
OpCost cost(const AcceptArgs& args);

//   out[seats[s]] = x[rows[s] - rejected[seats[s]]]   where there is a seat
struct KeepRowsArgs {
  Tensor x = {};         // [T, D] f32 or bf16
  Tensor rows = {};      // [S] i32 < T
  Tensor seats = {};     // [S] i32 < N, distinct but for those that are negative
  Tensor rejected = {};  // [N] i32
  Tensor out = {};       // [N, D] dtype of x, updated
};
void check(const KeepRowsArgs& args);
OpCost cost(const KeepRowsArgs& args);

// In counts: the token is in the sequence's prompt, and is in its answer once more.
inline constexpr std::int32_t kCountOfPrompt = 1, kCountOfSaid = 2;

//   counts[seats[r]][tokens[r]] += kCountOfSaid for each row r that is right
//
// A row is right if its seat and its token are not negative and its draft is the token of the row
// before, which is right, or -1: it runs no draft.
struct CountTokensArgs {
  Tensor tokens = {};  // [R] i32, < V
  Tensor drafts = {};  // [R] i32: the token that the row runs, if that is a guess
  Tensor seats = {};   // [R] i32, < N
  Tensor counts = {};  // [N, V] i32, updated
};
void check(const CountTokensArgs& args);
OpCost cost(const CountTokensArgs& args);

}  // namespace glint
