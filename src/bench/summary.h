// Numbers out of the records of a load: rates, and the distribution of latencies.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/stream_record.h"

namespace glint {

// Of some values; zeros if there are none. Quantiles are values that occur (nearest rank).
struct Distribution {
  std::size_t count = 0;
  double mean = 0, p50 = 0, p99 = 0, max = 0;

  static Distribution of(std::vector<double> values);
};

struct LoadSummary {
  int num_requests = 0, num_failed = 0;
  std::string first_failure = {};
  double seconds = 0;              // from the first request to the last answer
  std::int64_t output_tokens = 0;  // of answers that are whole
  Distribution ttft_ms = {}, itl_ms = {}, tpot_ms = {};

  double output_tokens_per_s() const {
    return seconds > 0 ? static_cast<double>(output_tokens) / seconds : 0;
  }
};
LoadSummary summarize(std::span<const StreamRecord> records, double seconds);

// {"mean": ..., "p50": ..., "p99": ..., "max": ..., "count": ...}
Json to_json(const Distribution& distribution);

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
