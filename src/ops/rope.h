// rope: rotates pairs of dims by the token's position, in place.
//
//   interleaved  pair j = (v[2j], v[2j+1]);  half-split  pair j = (v[j], v[j + R/2])
//   (a, b) -> (a cos - b sin, b cos + a sin)       f32, one cast
#pragma once

#include "ops/cost.h"
#include "tensor/tensor.h"

namespace glint {

struct RopeArgs {
  Tensor x = {};    // [T, H, R] f32 or bf16, updated; may be a slice of larger rows; R even
  Tensor cos = {};  // [T, R/2] f32: of the f32 product position * inv_freq[j]
  Tensor sin = {};  // [T, R/2] f32
  bool interleaved = true;
};
void check(const RopeArgs& args);
OpCost cost(const RopeArgs& args);

inline constexpr OpTolerance kRopeTolerance = {.f32 = 1e-6, .bf16 = 5e-4};

}  // namespace glint
