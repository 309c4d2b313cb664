#include "bench/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/distribution.h"

namespace glint {
namespace {

Distribution gaps_of(const std::vector<double>& times) {
  std::vector<double> gaps;
  double before = 0;
  for (const double time : times) gaps.push_back(time - std::exchange(before, time));
  return Distribution::of(gaps);
}

TEST(Arrivals, keep_their_rate_and_their_burstiness) {
  for (const double burstiness : {0.25, 1.0, 4.0, 100.0}) {
    const auto times = arrival_times({.rate = 50, .burstiness = burstiness, .seed = 7}, 20'000);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    EXPECT_NEAR(times.back(), 400, 1e-6);
    const Distribution gaps = gaps_of(times);
    EXPECT_NEAR(gaps.mean, 0.02, 1e-9);
    // A gamma's coefficient of variation is 1 / sqrt(shape).
    EXPECT_NEAR(gaps.std / gaps.mean, 1 / std::sqrt(burstiness), 0.05 / std::sqrt(burstiness));
  }
}

TEST(Arrivals, without_a_rate_all_come_at_once) {
  EXPECT_EQ(arrival_times({}, 3), (std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(arrival_times({.rate = 1}, 0).empty());
}

TEST(Arrivals, ramps_go_from_one_rate_to_the_other) {
  const auto rate_at = [](const std::vector<double>& times, std::size_t i) {
    return 500 / (times[i + 500] - times[i]);
  };
  const auto line = arrival_times({.burstiness = 100, .ramp_start = 10, .ramp_end = 110}, 10'001);
  EXPECT_NEAR(rate_at(line, 0), 12.5, 1);
  EXPECT_NEAR(rate_at(line, 4750), 60, 4);
  EXPECT_NEAR(rate_at(line, 9500), 107.5, 5);
  const auto factor = arrival_times(
      {.burstiness = 100, .ramp_start = 1, .ramp_end = 100, .exponential = true}, 10'001);
  EXPECT_NEAR(rate_at(factor, 4750), 10, 0.8);
}

TEST(Arrivals, other_seeds_are_other_times) {
  EXPECT_NE(arrival_times({.rate = 1, .seed = 1}, 5), arrival_times({.rate = 1, .seed = 2}, 5));
  EXPECT_EQ(arrival_times({.rate = 1, .seed = 1}, 5), arrival_times({.rate = 1, .seed = 1}, 5));
}

}  // namespace
}  // namespace glint
