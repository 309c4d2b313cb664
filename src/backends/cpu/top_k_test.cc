#include "backends/cpu/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace glint::cpu {
namespace {

std::vector<std::int32_t> top(std::vector<float> scores, std::size_t k) {
  std::vector<std::int32_t> out(k);
  top_k(scores, out);
  return out;
}

TEST(TopK, ties_go_to_the_smaller_index_and_zeros_are_equal) {
  EXPECT_EQ(top({0.0f, -0.0f, 1, 0.0f, -0.0f}, 3), (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(top({-0.0f, 0.0f, -1, 0.0f}, 2), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(top({2, 2, 2, 2}, 1), (std::vector<std::int32_t>{0}));
}

TEST(TopK, orders_negative_and_extreme_values_and_leaves_nan_to_the_last) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  EXPECT_EQ(top({nan, -inf, -3, inf, -1e-40f}, 3), (std::vector<std::int32_t>{2, 3, 4}));
  EXPECT_EQ(top({nan, -inf, nan}, 2), (std::vector<std::int32_t>{0, 1}));
}

TEST(TopK, equals_a_stable_sort_on_random_scores_with_many_ties) {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    const int n = 1 + static_cast<int>(random.below(700));
    std::vector<float> scores(n);
    for (float& s : scores) {
      s = static_cast<float>(std::round(random.normal() * (1 + round % 50)) / (1 + round % 3));
    }
    std::vector<std::int32_t> expected(n);
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(),
                     [&](int a, int b) { return scores[a] > scores[b]; });
    expected.resize(random.below(static_cast<std::uint32_t>(n) + 1));
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(top(scores, expected.size()), expected);
  }
}

}  // namespace
}  // namespace glint::cpu
