#include "bench/summary.h"

#include <gtest/gtest.h>

#include "bench/testing.h"

namespace glint {
namespace {

TEST(Summary, failures_are_counted_and_left_out_of_the_numbers) {
  std::vector<StreamRecord> records(3);
  records[0] = {.start = at(0),
                .chunks = {at(10), at(20), at(40)},
                .chunk_tokens = {1, 1, 1},
                .tokens = {1, 2, 3},
                .usage_tokens = 3};
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
  EXPECT_DOUBLE_EQ(s.e2el_ms.mean, 35);  // 40 and 30
  EXPECT_DOUBLE_EQ(s.mean_concurrency, 0.035);
}

TEST(Summary, gaps_are_split_by_what_they_overlap) {
  std::vector<StreamRecord> records(1);
  records[0].chunks = {at(0), at(10), at(30), at(60), at(70)};
  const std::vector<Interval> intervals = {{at(20), at(50)}};
  const SplitGaps gaps = split_gaps(records, intervals);
  EXPECT_EQ(gaps.outside, (std::vector<double>{10, 10}));
  EXPECT_EQ(gaps.inside, (std::vector<double>{20, 30}));
}

// With drafts a chunk carries several tokens: a rate counts those.
TEST(Summary, rates_and_peaks_count_tokens_and_not_chunks) {
  std::vector<StreamRecord> records(2);
  records[0] = {.start = at(0),
                .chunks = {at(500), at(1500)},
                .chunk_tokens = {4, 3},
                .tokens = {1, 2, 3, 4, 5, 6, 7},
                .usage_tokens = 7};
  records[1] = {.start = at(1200), .chunks = {at(1300), at(1900)}, .usage_tokens = 10};  // no ids
  const LoadSummary s = summarize(records, 2);
  EXPECT_EQ(s.output_tokens, 17);
  EXPECT_DOUBLE_EQ(s.tokens_per_chunk(), 17.0 / 4);
  EXPECT_DOUBLE_EQ(s.peak_tokens_per_s, 13);  // 3 and 10 in the second from 1 to 2
  EXPECT_EQ(s.peak_concurrency, 2);
  EXPECT_DOUBLE_EQ(s.tpot_ms.mean, (1000.0 / 6 + 600.0 / 9) / 2);
}

TEST(Summary, takes_no_longer_for_long_answers) {
  const StreamRecord record = {.chunks = {at(1'000'000'000)}};
  EXPECT_EQ(summarize(std::vector(1 << 16, record), 1).peak_concurrency, 1 << 16);
}

TEST(Summary, good_answers_keep_every_limit_that_was_given) {
  std::vector<StreamRecord> records(3);
  records[0] = {.start = at(0), .chunks = {at(10), at(30)}, .usage_tokens = 2};
  records[1] = {.start = at(0), .chunks = {at(50), at(60)}, .usage_tokens = 2};
  records[2] = {.start = at(0), .chunks = {at(10)}, .usage_tokens = 1};
  EXPECT_FALSE(summarize(records, 1).num_good);
  EXPECT_EQ(summarize(records, 1, {.ttft_ms = 20}).num_good, 2);
  EXPECT_EQ(summarize(records, 1, {.tpot_ms = 15}).num_good, 2);  // one token keeps it
  EXPECT_EQ(summarize(records, 1, {.ttft_ms = 20, .e2el_ms = 20}).num_good, 1);
}

}  // namespace
}  // namespace glint
