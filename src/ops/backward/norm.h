// Backward pass of rms_norm (ops/backward.h has the rules).
#pragma once

#include "ops/norm.h"

namespace glint {

//   r  = 1 / sqrt(mean(x^2) + eps)
//   dx += r weight g - x r^3 / D * sum_d(x weight g)
//   dweight += sum_t g x r
//   ddelta += dx, the whole of it                                if delta is given
//
// x is what the norm saw, with delta added. The gradient of the old x is that of the sum, and lies
// in the same place. dweight is summed over blocks of tokens that do not depend on the threads.
struct RmsNormBackArgs {
  RmsNormArgs op = {};  // op.x: what the norm saw; op.delta and op.out are not read
  Tensor dout = {};     // [T, D] f32, read and zeroed; may be dx where out was x
  Tensor dx = {};       // [T, D] f32, added to
  Tensor ddelta = {};   // [T, D] f32, added to; empty where there was no delta
  Tensor dweight = {};  // [D] f32, added to; empty: the weight is frozen
};
void check(const RmsNormBackArgs& args);
OpCost cost(const RmsNormBackArgs& args);

inline constexpr double kRmsNormBackTolerance = 4e-6;

}  // namespace glint
