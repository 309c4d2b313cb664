// place_rows, keep_tokens, count_tokens: the rows of a step, some of whose tokens only the device
// knows yet. A sequence that runs has a seat, and its last token, and what it has said, lie in
// tables by seat: so a step can follow another one before the host has seen what that one sampled.
#pragma once

#include "ops/cost.h"
#include "ops/kv_layout.h"
#include "tensor/tensor.h"

namespace glint {

// Slice s of S is (begin, count, first, seat): rows [begin, begin + count) of the step run
// positions [first, first + count) of a sequence. For its i-th row t:
//
//   ids[t]       = tokens[t] where it is >= 0 or there is no seat (-1), else last[seat]
//   positions[t] = first + i
//   slots[t]     = page_table[s][positions[t] / kPageSize] * kPageSize + positions[t] % kPageSize
//   seqs[t]      = s
//
// Rows of no slice are padding: -1 in all four (BatchView).
struct PlaceRowsArgs {
  Tensor tokens = {};      // [T] i32
  Tensor slices = {};      // [S, 4] i32, without overlap, in order of their rows
  Tensor page_table = {};  // [S, P] i32
  Tensor last = {};        // [N] i32: by seat; read where a slice has one
  Tensor ids = {};         // [T] i32, written
  Tensor positions = {};   // likewise
  Tensor slots = {};       // likewise
  Tensor seqs = {};        // likewise
};
void check(const PlaceRowsArgs& args);
OpCost cost(const PlaceRowsArgs& args);

//   last[seats[r]] = tokens[r], but where the seat or the token is negative
struct KeepTokensArgs {
  Tensor tokens = {};  // [R] i32
  Tensor seats = {};   // [R] i32, < N, distinct but for those that are negative
  Tensor last = {};    // [N] i32, updated
};
void check(const KeepTokensArgs& args);
OpCost cost(const KeepTokensArgs& args);

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
