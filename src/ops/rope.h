// rope: rotates pairs of dims by the token's position, in place.
//
//   (a, b) -> (a cos[j] - b sin[j], b cos[j] + a sin[j])      for pair j, in f32, with one cast
//
// where pair j is (x[2j], x[2j + 1]) if interleaved, else (x[j], x[j + R/2]), and cos and sin are
// the halves of row positions[t] of the table. A row whose position is -1 stays as it is.
//
// Source: Su et al., RoFormer (arXiv 2104.09864), section 3.4.
#pragma once

#include "ops/cost.h"
#include "tensor/tensor.h"

namespace glint {

struct RopeArgs {
  Tensor x = {};          // [T, H, R] f32 or bf16, updated; may be a slice of larger rows; R even
  Tensor positions = {};  // [T] i32 in [-1, P)
  // [P, R] f32: cos, then sin, of the f32 products position * inv_freq[j] (rope_table in
  // model/rope.h)
  Tensor table = {};
  bool interleaved = true;
};
void check(const RopeArgs& args);
OpCost cost(const RopeArgs& args);

inline constexpr OpTolerance kRopeTolerance = {.f32 = 1e-6, .bf16 = 5e-4};

}  // namespace glint
