// Backward passes of linear, grouped_linear and per_head (ops/backward.h has the rules).
//
//   dx += g W;  dW += g^T x
//
// Weights are f32 or bf16, in rows. Where x and W are both bf16, g may be rounded to bf16 once,
// before the products, as x was; results stay f32. Sums are in f32 or better: over outputs in dx,
// over tokens in dW, in an order that shapes and offsets fix, whatever the threads.
#pragma once

#include "ops/linear.h"

namespace glint {

struct LinearBackArgs {
  LinearArgs op = {};   // op.out is not read
  Tensor dout = {};     // [T, N] f32, read and zeroed
  Tensor dx = {};       // [T, K] f32, added to; empty: nobody asks for it
  Tensor dweight = {};  // [N, K] f32, dense, added to; empty: the weight is frozen
};
void check(const LinearBackArgs& args);
OpCost cost(const LinearBackArgs& args);

// No expert reads a row of x twice. The rows of dx that several experts read are added to in the
// order of r. What belongs to an expert without rows is not touched.
struct GroupedLinearBackArgs {
  GroupedLinearArgs op = {};  // op.out is not read
  Tensor dout = {};           // [R, N] f32, read; rows before offsets[E] are zeroed
  Tensor dx = {};             // [S, K] f32, added to; empty: nobody asks for it
  Tensor dweights = {};       // [E, N, K] f32, dense, added to; empty: they are frozen
};
void check(const GroupedLinearBackArgs& args);
OpCost cost(const GroupedLinearBackArgs& args);  // reads `offsets`: host memory only

struct PerHeadBackArgs {
  PerHeadArgs op = {};   // op.out is not read
  Tensor dout = {};      // [T, H, B] f32, read and zeroed; may be a slice of a larger row
  Tensor dx = {};        // [T, H, A] f32, added to; may be a slice of a larger row; or empty
  Tensor dweights = {};  // [H, B, A] f32, dense, added to; empty: they are frozen
};
void check(const PerHeadBackArgs& args);
OpCost cost(const PerHeadBackArgs& args);

inline constexpr OpTolerance kLinearBackTolerance = {.f32 = 4e-6, .bf16 = 4e-3};

}  // namespace glint
