#include "bench/summary.h"

#include <algorithm>
#include <cmath>

namespace glint {
Distribution Distribution::of(std::vector<double> values) {
  Distribution out;
  out.count = values.size();
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  // The smallest value that at least a share q of all do not exceed.
  const auto rank = [&](double q) {
    const double n = std::ceil(q * static_cast<double>(values.size()));
    return values[static_cast<std::size_t>(std::max(n, 1.0)) - 1];
  };
  for (const double v : values) out.mean += v / static_cast<double>(values.size());
  out.p50 = rank(0.5);
  out.p99 = rank(0.99);
  out.max = values.back();
  return out;
}

LoadSummary summarize(std::span<const StreamRecord> records, double seconds) {
  LoadSummary out;
  out.seconds = seconds;
  out.num_requests = static_cast<int>(records.size());
  std::vector<double> ttft, tpot;
  for (const StreamRecord& record : records) {
    if (!record.failure.empty()) {
      if (out.num_failed++ == 0) out.first_failure = record.failure;
      continue;
    }
    out.output_tokens += record.usage_tokens;
    ttft.push_back(record.ttft_ms());
    if (record.usage_tokens > 1) tpot.push_back(record.tpot_ms());
  }
  out.ttft_ms = Distribution::of(std::move(ttft));
  out.tpot_ms = Distribution::of(std::move(tpot));
  out.itl_ms = Distribution::of(split_gaps(records, {}).outside);
  return out;
}

Json to_json(const Distribution& d) {
  return Json::Object{{"mean", d.mean},
                      {"p50", d.p50},
                      {"p99", d.p99},
                      {"max", d.max},
                      {"count", static_cast<std::int64_t>(d.count)}};
}

SplitGaps split_gaps(std::span<const StreamRecord> records, std::span<const Interval> intervals) {
  SplitGaps out;
  for (const StreamRecord& record : records) {
    if (!record.failure.empty()) continue;
    for (std::size_t i = 1; i < record.chunks.size(); ++i) {
      const BenchClock::time_point from = record.chunks[i - 1], to = record.chunks[i];
      const bool overlaps =
          std::any_of(intervals.begin(), intervals.end(),
                      [&](const Interval& each) { return from < each.end && each.begin < to; });
      (overlaps ? out.inside : out.outside).push_back(to_ms(to - from));
    }
  }
  return out;
}

}  // namespace glint
