#include "base/random.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

// Known answers of the authors' implementation (Random123, kat_vectors: philox 4x32 10).
TEST(Random, philox_matches_its_published_vectors) {
  EXPECT_EQ(philox(0, 0, 0),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(UINT64_MAX, UINT64_MAX, UINT64_MAX),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, streams_and_seeds_are_independent_and_repeatable) {
  Random a(1, 2), again(1, 2), other_stream(1, 3), other_seed(2, 2);
  int same_stream = 0, same_seed = 0;
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t bits = a.bits();
    EXPECT_EQ(bits, again.bits());
    same_stream += bits == other_stream.bits();
    same_seed += bits == other_seed.bits();
  }
  EXPECT_EQ(same_stream + same_seed, 0);
}

TEST(Random, distributions_have_their_range_mean_and_spread) {
  Random random(7);
  double uniform_sum = 0, sum = 0, squares = 0;
  std::array<int, 5> counts = {};
  constexpr int kDraws = 200000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.uniform();
    ASSERT_TRUE(u >= 0 && u < 1);
    uniform_sum += u;
    ++counts.at(random.below(5));
    const double z = random.normal();
    ASSERT_TRUE(std::isfinite(z));
    sum += z;
    squares += z * z;
  }
  EXPECT_NEAR(uniform_sum / kDraws, 0.5, 0.005);
  EXPECT_NEAR(sum / kDraws, 0, 0.01);
  EXPECT_NEAR(squares / kDraws, 1, 0.02);
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 5, 1000);
}

}  // namespace
}  // namespace glint
