#include "checkpoint/formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "tensor/fp8.h"

namespace glint {
namespace {

TEST(Formats, nvfp4_packs_the_fixture_of_the_specification) {
  const float values[] = {0.1f, -0.3f, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f,
                          5,    -6,    0,     1,     -1.5f, 2,     3,    4};
  std::uint8_t packed[8], scale;
  encode_nvfp4(values, 1, 16, 1, packed, &scale);
  EXPECT_EQ(scale, 0x38);
  const std::uint8_t expected[] = {0x90, 0x20, 0x42, 0x64, 0xf6, 0x20, 0x4b, 0x65};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(packed[i], expected[i]) << i;
}

TEST(Formats, nvfp4_scales_follow_the_rule) {
  std::vector<float> values(48);
  values[0] = 2.0f;      // group 0 holds the matrix's largest: its scale is 448
  values[16] = -1e-20f;  // group 1 is far below the smallest scale: 2^-9
  float global = nvfp4_global_scale(2);
  EXPECT_EQ(global, 2.0f / 2688);
  std::uint8_t packed[24], scales[3];
  encode_nvfp4(values.data(), 1, 48, global, packed, scales);
  EXPECT_EQ(scales[0], 0x7e);
  EXPECT_EQ(packed[0], 0x07);
  EXPECT_EQ(scales[1], 0x01);
  EXPECT_EQ(packed[8], 0x08);
  EXPECT_EQ(scales[2], 0x38);  // zeros: 1
  EXPECT_EQ(nvfp4_global_scale(0), 1);
}

TEST(Formats, fp8_blocks_put_their_largest_at_448_ragged_edges_too) {
  constexpr std::int64_t kRows = 130, kCols = 140;
  std::vector<float> values(kRows * kCols);
  values[0] = 7;  // block (0, 0)
  values[1] = -0.1f;
  values[kRows * kCols - 1] = -0.5f;  // block (1, 1)
  std::vector<std::uint8_t> codes(values.size());
  float scales[4];
  encode_fp8_block(values.data(), kRows, kCols, codes.data(), scales);
  EXPECT_EQ(scales[0], 7.0f / 448);
  EXPECT_EQ(scales[1], 1);
  EXPECT_EQ(scales[2], 1);
  EXPECT_EQ(scales[3], 0.5f / 448);
  EXPECT_EQ(codes[0], 0x7e);
  EXPECT_EQ(codes[1], 0xcd);  // -6.4 -> -6.5
  EXPECT_EQ(codes.back(), 0xfe);
}

TEST(Formats, decoding_gives_back_what_was_encoded_within_the_formats_precision) {
  constexpr std::int64_t kRows = 150, kCols = 160;
  Random random(1);
  std::vector<float> values(kRows * kCols), row(kCols);
  for (float& value : values) value = static_cast<float>(random.normal());
  std::vector<std::uint8_t> codes(values.size()), packed(values.size() / 2),
      groups(values.size() / 16);
  std::vector<float> scales(4);
  encode_fp8_block(values.data(), kRows, kCols, codes.data(), scales.data());
  float global = nvfp4_global_scale(largest_magnitude(values.data(), kRows * kCols));
  encode_nvfp4(values.data(), kRows, kCols, global, packed.data(), groups.data());
  const Weight weights[] = {{.format = WeightFormat::kFp8Block,
                             .rows = kRows,
                             .cols = kCols,
                             .data = Tensor(codes.data(), DType::kF8E4M3, {kRows, kCols}),
                             .scale = Tensor(scales.data(), DType::kF32, {2, 2})},
                            {.format = WeightFormat::kNvfp4,
                             .rows = kRows,
                             .cols = kCols,
                             .data = Tensor(packed.data(), DType::kU8, {kRows, kCols / 2}),
                             .scale = Tensor(groups.data(), DType::kF8E4M3, {kRows, kCols / 16}),
                             .global_scale = Tensor(&global, DType::kF32, {1})}};
  const double bounds[] = {0.03, 0.12};  // relative L2: 3 mantissa bits; 1 bit
  for (int w = 0; w < 2; ++w) {
    double error = 0, norm = 0;
    for (std::int64_t n = 0; n < kRows; ++n) {
      dequantize_row(weights[w], n, row.data());
      for (std::int64_t k = 0; k < kCols; ++k) {
        const double value = values[static_cast<std::size_t>(n * kCols + k)];
        error += std::pow(row[static_cast<std::size_t>(k)] - value, 2);
        norm += value * value;
      }
    }
    EXPECT_LT(std::sqrt(error / norm), bounds[w]);
    EXPECT_GT(std::sqrt(error / norm), bounds[w] / 3);
  }
}

}  // namespace
}  // namespace glint
