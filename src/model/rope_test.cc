#include "model/rope.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>

#include "base/thread_pool.h"

namespace glint {
namespace {

// One unit in the last place: what a libm's pow may differ by.
void expect_words(const std::vector<float>& table, const std::vector<std::uint32_t>& words) {
  for (std::size_t j = 0; j < words.size(); ++j) {
    const auto found = static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(table[j]));
    EXPECT_LE(std::abs(found - static_cast<std::int64_t>(words[j])), 1) << j;
  }
}

TEST(Rope, inverse_frequencies_equal_the_fixtures) {
  const std::vector<float> table = rope_inv_freq({.theta = 1e6}, 64);
  ASSERT_EQ(table.size(), 32u);
  expect_words(table,
               {0x3f800000, 0x3f263de0, 0x3ed7e89b, 0x3e8c3504, 0x3e361887, 0x3dec7fd6, 0x3d99940d,
                0x3d47763f, 0x3d0186e3, 0x3ca8398b, 0x3c5a7bf2, 0x3c0de12d, 0x3bb8449c, 0x3b6f520e,
                0x3b1b690d, 0x3ac9d75c, 0x3a83126f, 0x3a2a3b44, 0x39dd1725, 0x398f9272, 0x393a7753,
                0x38f22ce2, 0x389d43a4, 0x384c3fbe, 0x3804a2b2, 0x37ac431d, 0x375fba4f, 0x371148e3,
                0x36bcb0c1, 0x36751070, 0x361f23e4, 0x35ceaf79});
  EXPECT_EQ(1000 * table[1], 649.381653f);
  expect_words(rope_inv_freq({.theta = 8e6}, 64),
               {0x3f800000, 0x3f1bc84c, 0x3ebd9851, 0x3e66bf20, 0x3e0c6a42, 0x3daae464});
}

TEST(Rope, yarn_keeps_fast_pairs_and_stretches_slow_ones) {
  const RopeConfig yarn = {.theta = 1e4, .factor = 40, .original_max_position_embeddings = 4096};
  const std::vector<float> plain = rope_inv_freq({.theta = 1e4}, 64);
  const std::vector<float> table = rope_inv_freq(yarn, 64);
  // d(32) = 10.47 and d(1) = 22.51: pairs to 10 are kept, pairs from 23 are divided by the factor.
  for (std::size_t j = 0; j <= 10; ++j) EXPECT_EQ(table[j], plain[j]);
  for (std::size_t j = 23; j < 32; ++j) EXPECT_FLOAT_EQ(table[j], plain[j] / 40);
  const double ramp = (16.0 - 10) / (23 - 10);
  EXPECT_FLOAT_EQ(table[16], static_cast<float>(plain[16] * (ramp / 40 + 1 - ramp)));
}

TEST(Rope, yarn_without_truncation_blends_between_fractional_pairs) {
  RopeConfig yarn = {.theta = 1e4, .factor = 40, .original_max_position_embeddings = 4096};
  yarn.truncate = false;
  const float plain = rope_inv_freq({.theta = 1e4}, 64)[16];
  const double low = 10.4722408, high = 22.5134406, ramp = (16 - low) / (high - low);
  EXPECT_NEAR(rope_inv_freq(yarn, 64)[16] / plain, ramp / 40 + 1 - ramp, 1e-6);
}

// m(x) = 0.1 * x * ln(40) + 1
TEST(Rope, yarn_scales_follow_from_which_of_its_fields_are_given) {
  const double m1 = 1.3688879, m2 = 1.7377759;
  const auto expect = [&](const std::string& fields, double softmax, double attention) {
    const std::string text = R"({"rope_theta": 10000, "rope_scaling": {"type": "yarn", "factor": 40,
        "original_max_position_embeddings": 4096)" +
                             fields + "}}";
    const RopeConfig rope = parse_rope(parse_json(text).value()).value();
    EXPECT_NEAR(rope.softmax_factor, softmax, 1e-6) << fields;
    EXPECT_NEAR(rope.attention_factor, attention, 1e-6) << fields;
  };
  expect(R"(, "mscale": 1, "mscale_all_dim": 1)", m1 * m1, 1);
  expect(R"(, "mscale": 2, "mscale_all_dim": 1)", m1 * m1, m2 / m1);
  expect(R"(, "mscale": 2)", 1, m1);
  expect(R"(, "mscale_all_dim": 2)", m2 * m2, m1);
  expect(R"(, "mscale": 2, "mscale_all_dim": 0)", 1, m1);
  expect("", 1, m1);
  expect(R"(, "mscale": 1, "mscale_all_dim": 1, "attention_factor": 0.5)", m1 * m1, 0.5);
}

TEST(Rope, yarn_with_a_tiny_original_context_stays_finite) {
  const RopeConfig yarn = {.theta = 2, .factor = 40, .original_max_position_embeddings = 1};
  for (const float frequency : rope_inv_freq(yarn, 2)) EXPECT_TRUE(std::isfinite(frequency));
}

// Values of the model's specification: the product of position and frequency is rounded to f32
// before cos and sin.
TEST(RopeTable, angles_are_f32_products) {
  RopeConfig rope;
  rope.theta = 1e6;
  ThreadPool pool(2);
  const std::vector<float> table = rope_table(rope, 64, 202752, pool);
  ASSERT_EQ(table.size(), 202752u * 64);
  const float* const cos = &table[202751u * 64];
  const float* const sin = cos + 32;
  EXPECT_NEAR(cos[0], 0.4476351, 1e-6);
  EXPECT_NEAR(sin[0], -0.8942163, 1e-6);
  EXPECT_NEAR(cos[1], 0.2025237, 1e-6);
  EXPECT_NEAR(sin[1], -0.9792774, 1e-6);
  EXPECT_NEAR(cos[31], 0.9516535, 1e-6);
}

TEST(RopeTable, cos_and_sin_are_scaled_by_the_attention_factor) {
  RopeConfig rope;
  rope.theta = 1e4;
  rope.attention_factor = 0.75;
  ThreadPool pool(1);
  const std::vector<float> table = rope_table(rope, 2, 4, pool);
  EXPECT_FLOAT_EQ(table[3 * 2], 0.75f * std::cos(3.0f));
  EXPECT_FLOAT_EQ(table[3 * 2 + 1], 0.75f * std::sin(3.0f));
}

}  // namespace
}  // namespace glint
