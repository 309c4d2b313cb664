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

TEST(Distribution, has_the_percentiles_that_are_asked_for) {
  const double asked[] = {25, 99.9};
  const Distribution d = Distribution::of({1, 2, 3, 4, 5}, asked);
  ASSERT_EQ(d.asked.size(), 2u);
  EXPECT_EQ(d.asked[0].value, 2);
  EXPECT_EQ(d.asked[0].name(), "p25");
  EXPECT_EQ(d.asked[1].name(), "p99.9");
  EXPECT_DOUBLE_EQ(to_json(d).find("p99.9")->as_double(), 4.996);
  EXPECT_TRUE(to_json(Distribution::of({}, asked)).find("p25")->is_null());
}

TEST(Distribution, without_values_there_are_no_numbers) {
  EXPECT_EQ(number_of(Distribution::of({}), 0, 2), "-");
  EXPECT_EQ(number_of(Distribution::of({7}), 7, 2), "7.00");
  EXPECT_EQ(
      dump_json(to_json(Distribution::of({}))),
      R"({"mean":null,"std":null,"p50":null,"p90":null,"p95":null,"p99":null,"max":null,"count":0})");
}

}  // namespace
}  // namespace glint
