#include "quant/encode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "checkpoint/formats.h"
#include "tensor/fp8.h"
#include "tensor/nvfp4.h"
#include "tensor/weight.h"

namespace glint {
namespace {

constexpr ScaleRule kRules[] = {ScaleRule::kSearch, ScaleRule::kAbsmax, ScaleRule::kFourOverSix};

float round_to_bf16(double value) { return to_float(to_bf16(static_cast<float>(value))); }

std::vector<float> gaussian(std::int64_t n, std::uint64_t seed, double sigma = 0.02) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = round_to_bf16(sigma * random.normal());
  return values;
}

std::vector<float> student_t5(std::int64_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) {
    double chi2 = 0;
    for (int i = 0; i < 5; ++i) chi2 += std::pow(random.normal(), 2);
    value = round_to_bf16(0.02 * random.normal() / std::sqrt(chi2 / 5));
  }
  return values;
}

// Rows of very different size, groups of zeros, single outliers, signed zeros, numbers of 1e-30.
std::vector<float> mixed(std::int64_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values = gaussian(n, seed + 1, 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto kind = philox(seed, 7, i / 16)[0] % 8;
    if (kind == 0) values[i] = i % 3 ? 0.0f : -0.0f;
    if (kind == 1) values[i] = round_to_bf16(values[i] * 1e-5);
    if (kind == 2 && i % 16 == 5) values[i] = round_to_bf16(values[i] * 100);
    if (kind == 3) values[i] = round_to_bf16(values[i] * 1e-30);
    if (kind == 4) values[i] = static_cast<float>(random.below(13)) * 0.25f;  // ties
  }
  return values;
}

struct Nvfp4 {
  std::vector<std::uint8_t> packed, scales;
  float global_scale = 1;
  double error = 0;
  std::int64_t groups() const { return static_cast<std::int64_t>(scales.size()); }
  std::vector<float> decode() const {
    std::vector<float> out(scales.size() * 16);
    const Weight weight = {
        .format = WeightFormat::kNvfp4,
        .rows = groups(),
        .cols = 16,
        .data = Tensor(const_cast<std::uint8_t*>(packed.data()), DType::kU8, {groups(), 8}),
        .scale = Tensor(const_cast<std::uint8_t*>(scales.data()), DType::kF8E4M3, {groups(), 1}),
        .global_scale = Tensor(const_cast<float*>(&global_scale), DType::kF32, {1})};
    for (std::int64_t i = 0; i < groups(); ++i) dequantize_row(weight, i, out.data() + i * 16);
    return out;
  }
};

Nvfp4 encode(const std::vector<float>& values, ScaleRule rule, bool power_of_two,
             EncodeIsa isa = EncodeIsa::kPortable) {
  const auto groups = static_cast<std::int64_t>(values.size()) / 16;
  const float amax = largest_magnitude(values.data(), groups * 16);
  Nvfp4 out = {.packed = std::vector<std::uint8_t>(values.size() / 2),
               .scales = std::vector<std::uint8_t>(values.size() / 16),
               .global_scale = nvfp4_global_scale(amax, rule, power_of_two)};
  out.error = encode_nvfp4_groups(isa, {rule, out.global_scale}, values.data(), groups,
                                  out.packed.data(), out.scales.data());
  return out;
}

// Squared error of each group; sum() adds them.
std::vector<double> errors(const std::vector<float>& values, const Nvfp4& result) {
  const std::vector<float> decoded = result.decode();
  std::vector<double> out(result.scales.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    out[i / 16] += std::pow(double{values[i]} - double{decoded[i]}, 2);
  }
  return out;
}
double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(EncodeNvfp4, absmax_is_the_scalar_definition) {
  for (const bool power_of_two : {false, true}) {
    const std::vector<float> values = mixed(16 * 1003, 3);
    const Nvfp4 result = encode(values, ScaleRule::kAbsmax, power_of_two);
    std::vector<std::uint8_t> packed(result.packed.size()), scales(result.scales.size());
    encode_nvfp4(values.data(), 1003, 16, result.global_scale, packed.data(), scales.data());
    EXPECT_EQ(result.scales, scales);
    EXPECT_EQ(result.packed, packed);
  }
}

TEST(EncodeNvfp4, every_instruction_set_gives_the_same_bytes_and_errors) {
  for (const ScaleRule rule : kRules) {
    for (const bool power_of_two : {false, true}) {
      for (const std::int64_t groups : {1, 15, 16, 17, 4099}) {
        const std::vector<float> values = mixed(16 * groups, 11);
        const Nvfp4 portable = encode(values, rule, power_of_two, EncodeIsa::kPortable);
        for (const EncodeIsa isa : encode_isas()) {
          const Nvfp4 fast = encode(values, rule, power_of_two, isa);
          EXPECT_EQ(portable.packed, fast.packed) << name_of(isa);
          EXPECT_EQ(portable.scales, fast.scales) << name_of(isa);
          EXPECT_EQ(portable.error, fast.error) << name_of(isa);
        }
      }
    }
  }
}

TEST(EncodeNvfp4, the_reported_error_is_that_of_what_decodes) {
  for (const ScaleRule rule : kRules) {
    const std::vector<float> values = gaussian(16 * 500, 5);
    const Nvfp4 result = encode(values, rule, true);
    EXPECT_NEAR(result.error / sum(errors(values, result)), 1, 1e-5);
  }
}

TEST(EncodeNvfp4, search_is_no_worse_than_absmax_in_any_group) {
  for (const bool power_of_two : {false, true}) {
    for (const auto& values : {gaussian(16 * 4000, 1), student_t5(16 * 4000, 2), mixed(64000, 3)}) {
      const Nvfp4 absmax = encode(values, ScaleRule::kAbsmax, power_of_two);
      const std::vector<double> reference = errors(values, absmax);
      const std::vector<double> searched =
          errors(values, encode(values, ScaleRule::kSearch, power_of_two));
      for (std::size_t i = 0; i < reference.size(); ++i) {
        // The kernel compares sums of f32; these are sums of f64 of the same codes.
        ASSERT_LE(searched[i], reference[i] * (1 + 1e-6)) << i;
      }
    }
  }
}

TEST(EncodeNvfp4, search_is_a_fifth_better_and_four_over_six_a_tenth) {
  const std::function<std::vector<float>()> sources[] = {[] { return gaussian(1 << 19, 21); },
                                                         [] { return student_t5(1 << 19, 22); }};
  for (const auto& source : sources) {
    const std::vector<float> values = source();
    const double absmax = sum(errors(values, encode(values, ScaleRule::kAbsmax, false)));
    EXPECT_LT(sum(errors(values, encode(values, ScaleRule::kSearch, true))), 0.8 * absmax);
    EXPECT_LT(sum(errors(values, encode(values, ScaleRule::kFourOverSix, true))), 0.9 * absmax);
  }
}

TEST(EncodeNvfp4, search_finds_what_trying_all_126_scales_finds) {
  const std::vector<float> values = gaussian(16 * 300, 8);
  const Nvfp4 result = encode(values, ScaleRule::kSearch, true);
  const std::vector<double> found = errors(values, result);
  for (std::size_t group = 0; group < found.size(); ++group) {
    double least = INFINITY;
    for (int code = 1; code <= 0x7e; ++code) {
      const float scale = e4m3_to_float(static_cast<std::uint8_t>(code)) * result.global_scale;
      double error = 0;
      for (std::size_t i = 0; i < 16; ++i) {
        const float value = values[group * 16 + i];
        error += std::pow(double{value} - e2m1_to_float(float_to_e2m1(value / scale)) * scale, 2);
      }
      least = std::min(least, error);
    }
    EXPECT_LE(found[group], least * (1 + 1e-6)) << group;
  }
}

TEST(EncodeNvfp4, power_of_two_scales_make_every_weight_a_bf16_number) {
  for (const ScaleRule rule : kRules) {
    const std::vector<float> values = mixed(16 * 2000, 9);
    for (const float decoded : encode(values, rule, true).decode()) {
      EXPECT_EQ(to_float(to_bf16(decoded)), decoded);
    }
  }
}

TEST(EncodeNvfp4, encoding_a_decoded_tensor_changes_nothing) {
  const std::vector<float> values = gaussian(16 * 2000, 10);
  const Nvfp4 once = encode(values, ScaleRule::kAbsmax, true);
  Nvfp4 twice = once;
  const std::vector<float> decoded = once.decode();
  encode_nvfp4_groups(EncodeIsa::kPortable, {ScaleRule::kAbsmax, once.global_scale}, decoded.data(),
                      once.groups(), twice.packed.data(), twice.scales.data());
  EXPECT_EQ(twice.decode(), decoded);
}

TEST(EncodeNvfp4, the_vectors_of_the_specification) {
  // Codes at scale 1: amax 6 and a global scale of 1 make the group's scale 1.
  const std::vector<std::pair<float, int>> codes = {
      {0, 0},     {.24f, 0},  {.25f, 0}, {.26f, 1}, {.5f, 1}, {.74f, 1},  {.75f, 2}, {.76f, 2},
      {1.25f, 2}, {1.75f, 4}, {2.5f, 4}, {3.5f, 6}, {5, 6},   {5.01f, 7}, {6, 7}};
  {
    for (const float sign : {1.0f, -1.0f}) {
      std::vector<float> values(16, 6);
      for (std::size_t i = 0; i < codes.size(); ++i) values[i] = sign * codes[i].first;
      std::uint8_t packed[8], scale;
      encode_nvfp4_groups(EncodeIsa::kPortable, {ScaleRule::kAbsmax, 1}, values.data(), 1, packed,
                          &scale);
      EXPECT_EQ(scale, 0x38);
      for (std::size_t i = 0; i < codes.size(); ++i) {
        const bool negative = sign < 0 && codes[i].first > 0;  // exact -0 becomes +0
        EXPECT_EQ(packed[i / 2] >> (i % 2 ? 4 : 0) & 15, codes[i].second | (negative ? 8 : 0)) << i;
      }
    }
  }
  // A group of zeros has scale 1; the group of the tensor's largest 448; order of nibbles.
  std::vector<float> values(48);
  values[16] = 2688;
  for (int i = 0; i < 16; ++i)
    values[static_cast<std::size_t>(32 + i)] = static_cast<float>(i) * 448;
  for (const ScaleRule rule : {ScaleRule::kAbsmax, ScaleRule::kSearch}) {
    const Nvfp4 result = encode(values, rule, false);
    EXPECT_EQ(result.scales[0], 0x38);
    EXPECT_EQ(std::vector<std::uint8_t>(result.packed.begin(), result.packed.begin() + 8),
              std::vector<std::uint8_t>(8));
  }
  const Nvfp4 absmax = encode({values.begin(), values.begin() + 32}, ScaleRule::kAbsmax, false);
  EXPECT_EQ(absmax.global_scale, 1);
  EXPECT_EQ(absmax.scales[1], 0x7e);
  EXPECT_EQ(absmax.packed[8], 0x07);
  // Ties of the scale itself go to the even code: 17 lies between 16 (0x58) and 18 (0x59).
  std::vector<float> tie(16);
  tie[0] = 17 * 6;
  std::uint8_t packed[8], scale;
  encode_nvfp4_groups(EncodeIsa::kPortable, {ScaleRule::kAbsmax, 1}, tie.data(), 1, packed, &scale);
  EXPECT_EQ(scale, 0x58);
  tie[0] = 19 * 6;
  encode_nvfp4_groups(EncodeIsa::kPortable, {ScaleRule::kAbsmax, 1}, tie.data(), 1, packed, &scale);
  EXPECT_EQ(scale, 0x5a);
}

TEST(EncodeNvfp4, global_scales) {
  EXPECT_EQ(nvfp4_global_scale(0, ScaleRule::kSearch, true), 1);
  EXPECT_EQ(nvfp4_global_scale(2688, ScaleRule::kSearch, true), 1);
  EXPECT_EQ(nvfp4_global_scale(2689, ScaleRule::kSearch, true), 2);
  EXPECT_EQ(nvfp4_global_scale(2, ScaleRule::kAbsmax, false), 2.0f / 2688);
  EXPECT_EQ(nvfp4_global_scale(1536, ScaleRule::kFourOverSix, true), 1);
  EXPECT_EQ(nvfp4_global_scale(1e-38f, ScaleRule::kAbsmax, false), 0x1p-126f);
}

struct Fp8 {
  std::vector<std::uint8_t> codes;
  float scale = 0;
  double error = 0;
};
Fp8 encode_tile(const std::vector<float>& values, std::int64_t cols, Fp8ScaleFormat format,
                EncodeIsa isa = EncodeIsa::kPortable) {
  Fp8 out = {.codes = std::vector<std::uint8_t>(values.size())};
  const auto rows = static_cast<std::int64_t>(values.size()) / cols;
  out.error =
      encode_fp8_tile(isa, format, {values.data(), out.codes.data(), rows, cols, cols}, &out.scale);
  return out;
}

TEST(EncodeFp8, fp32_scales_are_the_scalar_definition_on_ragged_tiles_too) {
  for (const std::int64_t cols : {128, 64, 5, 113}) {
    const std::vector<float> values = gaussian(cols * 70, 4);
    std::vector<std::uint8_t> codes(values.size());
    float scale = 0;
    encode_fp8_block(values.data(), 70, cols, codes.data(), &scale);
    for (const EncodeIsa isa : encode_isas()) {
      const Fp8 tile = encode_tile(values, cols, Fp8ScaleFormat::kFp32, isa);
      EXPECT_EQ(tile.codes, codes);
      EXPECT_EQ(tile.scale, scale);
      double error = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        error += std::pow(double{values[i]} - e4m3_to_float(codes[i]) * scale, 2);
      }
      EXPECT_NEAR(tile.error / error, 1, 1e-4);
    }
  }
}

TEST(EncodeFp8, ue8m0_scales_are_powers_of_two_chosen_before_rounding) {
  for (int k = -20; k <= 20; ++k) {
    const float amax = std::ldexp(448.0f, k);
    EXPECT_EQ(encode_tile({amax, amax / 1000}, 2, Fp8ScaleFormat::kUe8m0).scale,
              std::ldexp(1.0f, k));
    const float above = std::nextafter(amax, INFINITY);
    EXPECT_EQ(encode_tile({above, amax / 1000}, 2, Fp8ScaleFormat::kUe8m0).scale,
              std::ldexp(1.0f, k + 1));
  }
  const std::vector<float> values = gaussian(128 * 128, 6);
  const Fp8 tile = encode_tile(values, 128, Fp8ScaleFormat::kUe8m0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(tile.codes[i], float_to_e4m3(values[i] / tile.scale));
  }
  const Fp8 fp32 = encode_tile(values, 128, Fp8ScaleFormat::kFp32);
  EXPECT_LT(tile.error, 1.1 * fp32.error);
}

TEST(EncodeFp8, tiles_of_zeros_and_tiny_numbers_are_finite) {
  const Fp8 zeros = encode_tile({0, -0.0f}, 2, Fp8ScaleFormat::kUe8m0);
  EXPECT_EQ(zeros.scale, 1);
  EXPECT_EQ(zeros.codes[0], 0);
  EXPECT_EQ(e4m3_to_float(zeros.codes[1]), 0);
  const Fp8 tiny = encode_tile({1e-38f, -1e-30f}, 2, Fp8ScaleFormat::kFp32);
  EXPECT_EQ(tiny.scale, 1e-12f / 448);
  for (const std::uint8_t code : tiny.codes) EXPECT_NE(code & 0x7f, 0x7f);
}

TEST(EncodeFp8, nothing_becomes_the_code_of_nan) {
  const std::vector<float> values = mixed(128 * 128, 12);
  for (const Fp8ScaleFormat format : {Fp8ScaleFormat::kFp32, Fp8ScaleFormat::kUe8m0}) {
    for (const std::uint8_t code : encode_tile(values, 128, format).codes) {
      EXPECT_NE(code & 0x7f, 0x7f);
    }
  }
}

}  // namespace
}  // namespace glint
