// What the CUDA backend runs so far.
#pragma once

#include "ops/capabilities.h"

namespace glint::cuda {

inline Capabilities capabilities() {
  return {.backend = "cuda",
          .ops = {Op::kEmbed, Op::kSiluMul, Op::kRmsNorm, Op::kLinear},
          .activations = {DType::kBF16},
          .weights = {WeightFormat::kBF16}};
}

}  // namespace glint::cuda
