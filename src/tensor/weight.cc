#include "tensor/weight.h"

#include <array>

#include "tensor/fp8.h"
#include "tensor/nvfp4.h"

namespace glint {
namespace {

// e4m3_to_float of every code.
constexpr auto kE4m3 = [] {
  std::array<float, 256> values = {};
  for (int code = 0; code < 256; ++code) {
    values[static_cast<std::size_t>(code)] = e4m3_to_float(static_cast<std::uint8_t>(code));
  }
  return values;
}();

}  // namespace

const char* name_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "f32";
    case WeightFormat::kBF16:
      return "bf16";
    case WeightFormat::kFp8Block:
      return "fp8";
    case WeightFormat::kNvfp4:
      return "nvfp4";
  }
  return "?";
}

std::int64_t bytes_of(const Weight& weight) {
  return std::ssize(weight.data.bytes()) + std::ssize(weight.scale.bytes());
}

void dequantize_row(const Weight& weight, std::int64_t n, float* out) {
  GLINT_CHECK(n >= 0 && n < weight.rows, "row out of range");
  GLINT_CHECK(weight.layout == WeightLayout::kRows, "a packed weight has no rows");
  const std::int64_t K = weight.cols;
  const std::byte* data = weight.data.data;
  switch (weight.format) {
    case WeightFormat::kF32: {
      const float* row = weight.data.row<float>(n);
      for (std::int64_t k = 0; k < K; ++k) out[k] = row[k];
      return;
    }
    case WeightFormat::kBF16: {
      const BF16* row = weight.data.row<BF16>(n);
      for (std::int64_t k = 0; k < K; ++k) out[k] = to_float(row[k]);
      return;
    }
    case WeightFormat::kFp8Block: {
      const auto* codes = reinterpret_cast<const std::uint8_t*>(data) + n * K;
      const float* scale = weight.scale.row<float>(n / weight.block_rows);
      for (std::int64_t k = 0; k < K; ++k) out[k] = kE4m3[codes[k]] * scale[k / weight.block_cols];
      return;
    }
    case WeightFormat::kNvfp4: {
      const auto* codes = reinterpret_cast<const std::uint8_t*>(data) + n * (K / 2);
      const auto* scale =
          reinterpret_cast<const std::uint8_t*>(weight.scale.data) + n * (K / kNvfp4Group);
      for (std::int64_t k = 0; k < K; ++k) {
        const int code = codes[k / 2] >> (k % 2 ? 4 : 0) & 15;
        // The inner product is exact in f32 (2 + 4 significant bits), so the order of the two
        // factors is part of the definition, not of the rounding.
        out[k] = e2m1_to_float(code) * e4m3_to_float(scale[k / kNvfp4Group]) * weight.global_scale;
      }
      return;
    }
  }
}

}  // namespace glint
