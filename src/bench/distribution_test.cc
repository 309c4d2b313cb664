#include "bench/distribution.h"

#include <gtest/gtest.h>

#include <numeric>

namespace glint {
namespace {

TEST(Distribution, percentiles_are_those_of_numpy) {
  std::vector<double> values(200);
  std::iota(values.rbegin(), values.rend(), 1.0);  // 1 .. 200, in any order
  const Distribution d = Distribution::of(values);
  EXPECT_EQ(d.count, 200u);
  EXPECT_DOUBLE_EQ(d.mean, 100.5);
  EXPECT_DOUBLE_EQ(d.p50, 100.5);
  EXPECT_DOUBLE_EQ(d.p90, 180.1);
  EXPECT_DOUBLE_EQ(d.p95, 190.05);
  EXPECT_DOUBLE_EQ(d.p99, 198.01);
  EXPECT_NEAR(d.std, 57.734305, 1e-6);
  EXPECT_EQ(d.max, 200);
  EXPECT_EQ(Distribution::of({7}).p99, 7);
  EXPECT_EQ(Distribution::of({7}).std, 0);
  EXPECT_EQ(Distribution::of({}).max, 0);
}

}  // namespace
}  // namespace glint
