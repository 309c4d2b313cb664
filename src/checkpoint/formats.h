// Writing matrices in the formats that checkpoints store: the inverse of dequantize_row. Scalar,
// and the definition of what `glint quantize` and the synthetic checkpoints write.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/weight.h"

namespace glint {

// format_fp8_block.cc: `values` [rows, cols] -> codes e4m3 [rows, cols] and scales
// [ceil(rows/128), ceil(cols/128)]. scale = amax / 448 of its block (1 where all is zero), a code
// the nearest of value / scale. A part of a matrix can be encoded alone if it begins at a multiple
// of 128.
void encode_fp8_block(const float* values, std::int64_t rows, std::int64_t cols,
                      std::uint8_t* codes, float* scales);

// format_nvfp4.cc: weight_scale_2 of a matrix whose largest magnitude is `amax`: amax / (6 * 448),
// and 1 for a matrix of zeros.
float nvfp4_global_scale(float amax);

// `values` [rows, cols], cols a multiple of 16 -> packed u8 [rows, cols / 2] and scales e4m3
// [rows, cols / 16], as ModelOpt does it: a group's scale is e4m3(clamp(amax / (6 * global_scale),
// 2^-9, 448)), 1 where all is zero; a code the nearest of value / (scale * global_scale), ties to
// even.
void encode_nvfp4(const float* values, std::int64_t rows, std::int64_t cols, float global_scale,
                  std::uint8_t* packed, std::uint8_t* scales);

}  // namespace glint
