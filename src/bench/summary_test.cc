#include "bench/summary.h"

#include <gtest/gtest.h>

#include <numeric>

namespace glint {
namespace {

BenchClock::time_point at(int ms) {
  return BenchClock::time_point{} + std::chrono::milliseconds(ms);
}

TEST(Distribution, quantiles_are_values_that_occur) {
  std::vector<double> values(200);
  std::iota(values.rbegin(), values.rend(), 1.0);  // 1 .. 200, in any order
  const Distribution d = Distribution::of(values);
  EXPECT_EQ(d.count, 200u);
  EXPECT_DOUBLE_EQ(d.mean, 100.5);
  EXPECT_EQ(d.p50, 100);
  EXPECT_EQ(d.p99, 198);
  EXPECT_EQ(d.max, 200);
  EXPECT_EQ(Distribution::of({7}).p99, 7);
  EXPECT_EQ(Distribution::of({}).max, 0);
}

TEST(Summary, failures_are_counted_and_left_out_of_the_numbers) {
  std::vector<StreamRecord> records(3);
  records[0] = {
      .start = at(0), .chunks = {at(10), at(20), at(40)}, .tokens = {1, 2, 3}, .usage_tokens = 3};
  records[1] = {.start = at(5), .chunks = {at(35)}, .usage_tokens = 1};
  records[2] = {.start = at(5), .chunks = {at(6), at(999)}, .failure = "it broke"};
  const LoadSummary s = summarize(records, 2);
  EXPECT_EQ(s.num_requests, 3);
  EXPECT_EQ(s.num_failed, 1);
  EXPECT_EQ(s.first_failure, "it broke");
  EXPECT_EQ(s.output_tokens, 4);
  EXPECT_DOUBLE_EQ(s.output_tokens_per_s(), 2);
  EXPECT_DOUBLE_EQ(s.ttft_ms.mean, 20);  // 10 and 30
  EXPECT_EQ(s.itl_ms.count, 2u);
  EXPECT_EQ(s.itl_ms.max, 20);
  EXPECT_EQ(s.tpot_ms.count, 1u);  // one token has none
  EXPECT_DOUBLE_EQ(s.tpot_ms.mean, 15);
}

TEST(Summary, gaps_are_split_by_what_they_overlap) {
  std::vector<StreamRecord> records(1);
  records[0].chunks = {at(0), at(10), at(30), at(60), at(70)};
  const std::vector<Interval> intervals = {{at(20), at(50)}};
  const SplitGaps gaps = split_gaps(records, intervals);
  EXPECT_EQ(gaps.outside, (std::vector<double>{10, 10}));
  EXPECT_EQ(gaps.inside, (std::vector<double>{20, 30}));
}

}  // namespace
}  // namespace glint
