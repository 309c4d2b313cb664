// rms_norm, layer_norm. Sources: Zhang and Sennrich (arXiv 1910.07467), Ba et al. (arXiv
// 1607.06450).
#pragma once

#include "ops/cost.h"
#include "tensor/tensor.h"

namespace glint {

//   x   = x + delta                              if delta is given: in f32, cast to x's dtype
//   out = x / sqrt(mean(x^2) + eps) * weight     of that x: in f32, with one cast
struct RmsNormArgs {
  Tensor x = {};       // [T, D] f32 or bf16; updated when delta is given; rows may be strided
  Tensor delta = {};   // [T, D] f32 or bf16, or empty
  Tensor weight = {};  // [D] f32 or bf16
  float eps = 1e-5f;
  // [T, D] f32 or bf16, written; rows may be strided; may be x when delta is empty
  Tensor out = {};
};
void check(const RmsNormArgs& args);
OpCost cost(const RmsNormArgs& args);

//   out = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias
//
// in f32, with one cast; var is the biased variance, mean((x - mean(x))^2).
struct LayerNormArgs {
  Tensor x = {};       // [T, D] f32 or bf16
  Tensor weight = {};  // [D] f32 or bf16
  Tensor bias = {};    // [D] f32 or bf16
  float eps = 1e-6f;
  Tensor out = {};  // [T, D] f32 or bf16, written
};
void check(const LayerNormArgs& args);
OpCost cost(const LayerNormArgs& args);

inline constexpr OpTolerance kNormTolerance = {.f32 = 2e-6, .bf16 = 5e-4};

}  // namespace glint
