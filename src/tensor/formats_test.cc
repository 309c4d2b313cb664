// fp8.h, nvfp4.h and weight.h: the scalar code that specifies the formats.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tensor/fp8.h"
#include "tensor/nvfp4.h"
#include "tensor/weight.h"

namespace glint {
namespace {

TEST(E8m0, is_an_exponent_alone) {
  EXPECT_EQ(e8m0_to_float(127), 1);
  EXPECT_EQ(e8m0_to_float(0), 0x1p-127f);
  EXPECT_EQ(e8m0_to_float(1), 0x1p-126f);
  EXPECT_EQ(e8m0_to_float(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

TEST(Fp8, encodes_the_fixtures_of_the_specification) {
  const std::pair<float, int> cases[] = {
      {1, 0x38},       {-1, 0xB8},       {448, 0x7E},          {500, 0x7E},  {0.0625f, 0x18},
      {0x1p-9f, 0x01}, {0x1p-10f, 0x00}, {3 * 0x1p-10f, 0x02}, {0.3f, 0x2A}, {17, 0x58},
      {18, 0x59},      {19, 0x5A},       {-0.0f, 0x80},        {0, 0x00},    {INFINITY, 0x7E}};
  for (const auto& [value, code] : cases) EXPECT_EQ(float_to_e4m3(value), code) << value;
}

TEST(Fp8, every_code_survives_and_every_float_goes_to_the_nearest) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<std::uint8_t>(code));
    if (std::isnan(value)) continue;
    EXPECT_EQ(float_to_e4m3(value), code);
  }
  for (int i = 0; i < 200000; ++i) {
    const float value = std::ldexp(1.0f + (i % 1000) / 1000.0f, i / 1000 % 24 - 14);
    const int code = float_to_e4m3(value);
    const float error =
        std::fabs(e4m3_to_float(static_cast<std::uint8_t>(code)) - std::min(value, 448.0f));
    for (const int other : {code - 1, code + 1}) {
      if (other < 0 || other > 0x7e) continue;
      const float distance =
          std::fabs(e4m3_to_float(static_cast<std::uint8_t>(other)) - std::min(value, 448.0f));
      EXPECT_TRUE(error < distance || (error == distance && code % 2 == 0)) << value;
    }
  }
}

TEST(Fp8, index_scales_are_powers_of_two_not_below_the_raw_scale) {
  EXPECT_EQ(index_scale(448), 1);
  EXPECT_EQ(index_scale(449), 2);
  EXPECT_EQ(index_scale(3), 0x1p-7f);
  EXPECT_EQ(index_scale(3.5f), 0x1p-7f);
  EXPECT_EQ(index_scale(7), 0x1p-6f);
  EXPECT_EQ(index_scale(1), 0x1p-8f);
  EXPECT_EQ(index_scale(0), 0x1p-22f);
}

TEST(Nvfp4, encodes_the_fixture_of_the_specification) {
  const float values[] = {0.1f, -0.3f, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f,
                          5,    -6,    0,     1,     -1.5f, 2,     3,    4};
  const int codes[] = {0, 9, 0, 2, 2, 4, 4, 6, 6, 15, 0, 2, 11, 4, 5, 6};
  for (int i = 0; i < 16; ++i) EXPECT_EQ(float_to_e2m1(values[i]), codes[i]) << values[i];
}

TEST(BF16, rounds_to_nearest_even) {
  EXPECT_EQ(to_bf16(1.00390625f).bits, 0x3f80);  // tie, down to even
  EXPECT_EQ(to_bf16(1.01171875f).bits, 0x3f82);  // tie, up to even
  EXPECT_EQ(to_bf16(INFINITY).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(NAN))));
}

TEST(Weight, fp8_blocks_and_nvfp4_groups_scale_their_elements) {
  std::vector<std::uint8_t> codes(130 * 144, 0x38);
  std::vector<float> scales = {1, 2, 3, 4};
  const Weight fp8 = {.format = WeightFormat::kFp8Block,
                      .rows = 130,
                      .cols = 144,
                      .data = Tensor(codes.data(), DType::kF8E4M3, {130, 144}),
                      .scale = Tensor(scales.data(), DType::kF32, {2, 2})};
  std::vector<float> row(144);
  dequantize_row(fp8, 129, row.data());
  EXPECT_EQ(row[127], 3);
  EXPECT_EQ(row[128], 4);

  std::vector<std::uint8_t> nibbles = {0x52, 0, 0, 0, 0, 0, 0, 0, 0x0A, 0, 0, 0, 0, 0, 0, 0};
  std::vector<std::uint8_t> group_scales = {0x38, 0x40};
  float global = 0.5f;
  const Weight fp4 = {.format = WeightFormat::kNvfp4,
                      .rows = 1,
                      .cols = 32,
                      .data = Tensor(nibbles.data(), DType::kU8, {1, 16}),
                      .scale = Tensor(group_scales.data(), DType::kF8E4M3, {1, 2}),
                      .global_scale = Tensor(&global, DType::kF32, {1})};
  dequantize_row(fp4, 0, row.data());
  EXPECT_EQ(row[0], 0.5f);
  EXPECT_EQ(row[1], 1.5f);
  EXPECT_EQ(row[16], -1.0f);
  EXPECT_EQ(bytes_of(fp4), 18);
}

TEST(WeightStack, has_every_matrix_with_its_scales) {
  // Codes, scales and the factor of all of one matrix after those of the other.
  struct Matrix {
    std::uint8_t codes[16] = {};
    std::uint8_t scales[2] = {0x38, 0x40};
    float global = 0;
  };
  Matrix memory[2];
  memory[0].codes[8] = 0x0A, memory[0].global = 0.5f;
  memory[1].codes[8] = 0x02, memory[1].global = 8;
  const Weight first = {.format = WeightFormat::kNvfp4,
                        .rows = 1,
                        .cols = 32,
                        .data = Tensor(memory[0].codes, DType::kU8, {1, 16}),
                        .scale = Tensor(memory[0].scales, DType::kF8E4M3, {1, 2}),
                        .global_scale = Tensor(&memory[0].global, DType::kF32, {1}),
                        .id = 7};
  const WeightStack stack = stack_of(first, 2, sizeof(Matrix));
  std::vector<float> row(32);
  dequantize_row(stack[0], 0, row.data());
  EXPECT_EQ(row[16], -1);
  dequantize_row(stack[1], 0, row.data());
  EXPECT_EQ(row[16], 16);
  EXPECT_EQ(stack[1].id, 7);
  EXPECT_EQ(bytes_of(stack), 36);

  const std::vector<Weight> each = {stack[1], stack[0], stack[1]};
  const WeightStack list = stack_of(each);
  EXPECT_EQ(list.count, 3);
  EXPECT_EQ(list[0].data.data, stack[1].data.data);
  EXPECT_EQ(bytes_of(list), 54);
}

}  // namespace
}  // namespace glint
