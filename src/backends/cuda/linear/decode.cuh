// Elements of a weight of any format as exact f32, code * scale: dequantize_row of tensor/weight.h.
#pragma once

#include "backends/cuda/linear/weight_view.h"
#include "backends/cuda/vec.cuh"
#include "tensor/fp8.h"

namespace glint::cuda {

// tensor/nvfp4.h's e2m1_to_float, without its table: a magnitude from 1 on has one bit of mantissa.
__device__ inline float e2m1_decoded(int code) {
  const int exponent = code >> 1 & 3, mantissa = code & 1;
  const int halves = exponent == 0 ? mantissa : (2 | mantissa) << (exponent - 1);
  const float magnitude = 0.5f * static_cast<float>(halves);
  return code & 8 ? -magnitude : magnitude;
}

// Element [n, k] of a weight of `columns` columns.
template <WeightFormat kFormat>
__device__ inline float weight_at(const WeightView& w, std::int64_t n, std::int64_t k,
                                  std::int64_t columns) {
  if constexpr (kFormat == WeightFormat::kF32) {
    return reinterpret_cast<const float*>(w.data)[n * columns + k];
  } else if constexpr (kFormat == WeightFormat::kBF16) {
    return as_float(reinterpret_cast<const bf16*>(w.data)[n * columns + k]);
  } else if constexpr (kFormat == WeightFormat::kFp8Block) {
    const auto code = static_cast<std::uint8_t>(w.data[n * columns + k]);
    const std::int64_t blocks = (columns + w.block_cols - 1) / w.block_cols;
    const float* scale = reinterpret_cast<const float*>(w.scale);
    return e4m3_to_float(code) * scale[n / w.block_rows * blocks + k / w.block_cols];
  } else {
    const auto pair = static_cast<int>(w.data[(n * columns + k) / 2]);
    const auto scale =
        static_cast<std::uint8_t>(w.scale[n * (columns / kNvfp4Group) + k / kNvfp4Group]);
    return e2m1_decoded(pair >> (k % 2 * 4) & 15) * e4m3_to_float(scale) * *w.global_scale;
  }
}

}  // namespace glint::cuda
