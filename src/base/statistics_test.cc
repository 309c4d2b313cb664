#include "base/statistics.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(Statistics, quantiles_are_of_nearest_rank) {
  std::vector<float> values;
  for (int i = 200; i >= 1; --i) values.push_back(static_cast<float>(i));
  EXPECT_EQ(quantile(values, 0.99), 198);
  EXPECT_EQ(quantile(values, 0.5), 100);
  EXPECT_EQ(quantile(values, 1), 200);
  EXPECT_EQ(quantile(values, 1e-9), 1);
  std::vector<float> one = {3};
  EXPECT_EQ(quantile(one, 0.99), 3);
  std::vector<float> none;
  EXPECT_DEATH(quantile(none, 0.5), "needs values");
}

TEST(Statistics, a_median_is_in_the_middle) {
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({8, 1, 4, 3}), 3.5);
}

}  // namespace
}  // namespace glint
