// FP8 in blocks of 128 x 128, as released checkpoints have it (formats.h).
#include <algorithm>

#include "checkpoint/formats.h"
#include "tensor/fp8.h"

namespace glint {
namespace {

constexpr float kE4m3Max = 448;

}  // namespace

void encode_fp8_block(const float* values, std::int64_t rows, std::int64_t cols,
                      std::uint8_t* codes, float* scales) {
  for (std::int64_t row0 = 0; row0 < rows; row0 += kFp8Block) {
    const std::int64_t row_end = std::min<std::int64_t>(row0 + kFp8Block, rows);
    for (std::int64_t col0 = 0; col0 < cols; col0 += kFp8Block) {
      const std::int64_t width = std::min<std::int64_t>(kFp8Block, cols - col0);
      float amax = 0;
      for (std::int64_t r = row0; r < row_end; ++r) {
        amax = std::max(amax, largest_magnitude(values + r * cols + col0, width));
      }
      const float scale = amax > 0 ? amax / kE4m3Max : 1;
      for (std::int64_t r = row0; r < row_end; ++r) {
        for (std::int64_t c = col0; c < col0 + width; ++c) {
          codes[r * cols + c] = float_to_e4m3(values[r * cols + c] / scale);
        }
      }
      *scales++ = scale;
    }
  }
}

}  // namespace glint
