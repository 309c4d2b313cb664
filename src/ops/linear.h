// linear, grouped_linear, per_head: matrix products with weights.
//
// Sums are in f32 with one cast at the end, over k ascending in an order that depends on K and the
// weight's format only: never on T, so that a row's result does not depend on its batch.
// Activations are f32 or bf16, and are multiplied by the exact weight (code * scale): a backend may
// not round a dequantised weight to bf16, nor quantise x.
//
// With `accumulate`, for which `out` must be f32, the product is rounded to f32 as without, and
// added to what `out` holds.
#pragma once

#include "ops/cost.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace glint {

//   out[t, n] = sum_k x[t, k] * weight[n, k]
struct LinearArgs {
  Tensor x = {};       // [T, K] f32 or bf16; rows may be strided
  Weight weight = {};  // [N, K]
  Tensor out = {};     // [T, N] written; dtype of x, or f32; rows may be strided
  bool accumulate = false;
};
void check(const LinearArgs& args);
OpCost cost(const LinearArgs& args);

// Rows of x in groups, a weight each (the routed experts):
//
//   out[r, n] = sum_k x[rows[r], k] * weights[e][n, k]   for offsets[e] <= r < offsets[e + 1]
//
// Rows from offsets[E] on are padding: their sources are not read, and they are not written.
struct GroupedLinearArgs {
  Tensor x = {};             // [S, K] f32 or bf16; rows may be strided
  Tensor rows = {};          // [R] i32: the source row of each output row; empty = r itself
  Tensor offsets = {};       // [E + 1] i32 ascending, offsets[0] = 0, offsets[E] <= R
  WeightStack weights = {};  // E of [N, K]
  Tensor out = {};           // [R, N] written; dtype of x, or f32
  bool accumulate = false;
};
void check(const GroupedLinearArgs& args);
OpCost cost(const GroupedLinearArgs& args);  // reads `offsets`: host memory only
OpCost cost(const GroupedLinearArgs& args, const Assume& assume);

// A small matrix per head (W_UK and W_UV of MLA):
//
//   out[t, h, b] = sum_a x[t, h, a] * weights[h][b, a]
struct PerHeadArgs {
  Tensor x = {};             // [T, H, A] f32 or bf16; may be a slice of a larger row
  WeightStack weights = {};  // H of [B, A]
  Tensor out = {};  // [T, H, B] written; dtype of x, or f32; may be a slice of a larger row
  bool accumulate = false;
};
void check(const PerHeadArgs& args);
OpCost cost(const PerHeadArgs& args);

inline constexpr OpTolerance kLinearTolerance = {.f32 = 4e-6, .bf16 = 5e-4};

}  // namespace glint
