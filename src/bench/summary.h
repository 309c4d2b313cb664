// Numbers out of the records of a load: rates, and the distribution of latencies.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/distribution.h"
#include "bench/stream_record.h"

namespace glint {

// Limits in ms that a good answer keeps; an empty one does not count.
struct Goodput {
  std::optional<double> ttft_ms = {}, tpot_ms = {}, e2el_ms = {};

  bool is_asked() const { return ttft_ms || tpot_ms || e2el_ms; }
  // An answer of one token has no time per token, and keeps that.
  bool is_kept_by(const StreamRecord& record) const;
};

struct LoadSummary {
  int num_requests = 0, num_failed = 0;
  std::string first_failure = {};
  double seconds = 0;  // from the first request to the last answer
  // Whole answers only.
  std::int64_t input_tokens = 0, output_tokens = 0, num_chunks = 0;
  Distribution ttft_ms = {}, tpot_ms = {}, itl_ms = {}, e2el_ms = {};
  double peak_tokens_per_s = 0;      // in the best second; 0: none came, or it is not known
  int peak_concurrency = 0;          // answers under way in one second, at most
  double mean_concurrency = 0;       // the sum of all times of answers / seconds
  std::optional<int> num_good = {};  // if it was asked

  double per_second(double count) const { return seconds > 0 ? count / seconds : 0; }
  int num_whole() const { return num_requests - num_failed; }
  double requests_per_s() const { return per_second(num_whole()); }
  double output_tokens_per_s() const { return per_second(static_cast<double>(output_tokens)); }
  double total_tokens_per_s() const {
    return per_second(static_cast<double>(input_tokens + output_tokens));
  }
  // More than 1: drafts were accepted, or the server gathers tokens.
  double tokens_per_chunk() const {
    return num_chunks > 0 ? static_cast<double>(output_tokens) / static_cast<double>(num_chunks)
                          : 0;
  }
};
// `percentiles` of latencies, besides those that each has.
LoadSummary summarize(std::span<const StreamRecord> records, double seconds,
                      const Goodput& goodput = {}, std::span<const double> percentiles = {});

// The gaps between chunks, in ms, split by whether they overlap one of `intervals`, each [begin,
// end] in time: what happened to decoding streams while something else went on.
struct Interval {
  BenchClock::time_point begin, end;
};
struct SplitGaps {
  std::vector<double> inside, outside;
};
SplitGaps split_gaps(std::span<const StreamRecord> records, std::span<const Interval> intervals);

}  // namespace glint
