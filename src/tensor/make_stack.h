// make_stack: the tensors of a weight format, in memory of the caller's.
#pragma once

#include "tensor/weight.h"

namespace glint {

constexpr DType dtype_of_data(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return DType::kF32;
    case WeightFormat::kBF16:
      return DType::kBF16;
    case WeightFormat::kFp8Block:
      return DType::kF8E4M3;
    case WeightFormat::kNvfp4:
      return DType::kU8;
  }
  return DType::kU8;
}

// `numbers(dtype, dims)` and `scales(dtype, dims)` make the tensors.
template <class Numbers, class Scales>
WeightStack make_stack(WeightFormat format, std::int64_t count, std::int64_t rows,
                       std::int64_t cols, Numbers&& numbers, Scales&& scales) {
  const bool is_nvfp4 = format == WeightFormat::kNvfp4;
  WeightStack s = {.format = format, .count = count, .rows = rows, .cols = cols};
  s.data = numbers(dtype_of_data(format), {count, rows, is_nvfp4 ? cols / 2 : cols});
  if (format == WeightFormat::kFp8Block)
    s.scale = scales(DType::kF32, {count, fp8_blocks(rows), fp8_blocks(cols)});
  if (!is_nvfp4) return s;
  s.scale = scales(DType::kF8E4M3, {count, rows, ceil_div(cols, kNvfp4Group)});
  s.global_scale = scales(DType::kF32, {count, 1});
  return s;
}

}  // namespace glint
