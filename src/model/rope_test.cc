#include "model/rope.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

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
  EXPECT_NEAR(std::sqrt(softmax_scale_factor(yarn)), 1.3688879, 1e-6);
}

TEST(Rope, yarn_with_a_tiny_original_context_stays_finite) {
  const RopeConfig yarn = {.theta = 2, .factor = 40, .original_max_position_embeddings = 1};
  for (const float frequency : rope_inv_freq(yarn, 2)) EXPECT_TRUE(std::isfinite(frequency));
}

}  // namespace
}  // namespace glint
