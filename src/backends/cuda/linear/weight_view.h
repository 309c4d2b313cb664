// A weight, or one of a stack of them, as kernels read it.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "tensor/weight.h"

namespace glint::cuda {

struct WeightView {
  const std::byte *data = nullptr, *scale = nullptr;
  const float* global_scale = nullptr;  // null: 1
  WeightFormat format = WeightFormat::kBF16;
  int block_rows = kFp8Block, block_cols = kFp8Block;
};

// Matrix i of a stack lies i steps behind the first: bytes, or elements of global_scale.
struct StackView {
  WeightView first;
  std::int64_t data_step = 0, scale_step = 0, global_step = 0;

#ifdef __CUDACC__
  __device__ WeightView operator[](std::int64_t i) const {
    WeightView one = first;
    one.data += i * data_step;
    one.scale += i * scale_step;
    if (one.global_scale) one.global_scale += i * global_step;
    return one;
  }
#endif
};

// The view of a Weight, or of the first matrix of a WeightStack.
template <class Weights>
WeightView first_view(const Weights& w) {
  GLINT_CHECK(w.layout == WeightLayout::kRows, "a weight that another backend packed");
  return {.data = w.data.data,
          .scale = w.scale.data,
          .global_scale = w.global_scale ? w.global_scale.template ptr<float>() : nullptr,
          .format = w.format,
          .block_rows = w.block_rows,
          .block_cols = w.block_cols};
}

inline StackView view_of(const Weight& weight) { return {first_view(weight)}; }
inline StackView view_of(const WeightStack& weights) {
  GLINT_CHECK(weights.each.empty(), "a stack of several formats; capabilities say that none is");
  const auto step = [](const Tensor& x) { return x ? x.stride[0] * size_of(x.dtype) : 0; };
  return {first_view(weights), step(weights.data), step(weights.scale),
          weights.global_scale ? weights.global_scale.stride[0] : 0};
}

}  // namespace glint::cuda
