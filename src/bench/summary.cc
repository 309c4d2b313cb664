#include "bench/summary.h"

#include <algorithm>
#include <map>

#include "base/seconds.h"

namespace glint {
namespace {

// Tokens that came in each second since the first request, and how many more answers are under way.
struct Seconds {
  std::map<std::int64_t, double> tokens;
  std::map<std::int64_t, int> answers;

  Seconds(std::span<const StreamRecord> records) {
    BenchClock::time_point begin = BenchClock::time_point::max();
    for (const StreamRecord& record : records) begin = std::min(begin, record.start);
    const auto second = [&](BenchClock::time_point at) {
      return static_cast<std::int64_t>(seconds_between(begin, at));
    };
    for (const StreamRecord& record : records) {
      if (!record.failure.empty()) continue;
      for (std::size_t i = 0; i < record.chunks.size(); ++i)
        tokens[second(record.chunks[i])] += record.tokens_of_chunk(i);
      ++answers[second(record.start)];
      --answers[second(record.chunks.back()) + 1];
    }
  }
};

}  // namespace

bool Goodput::is_kept_by(const StreamRecord& record) const {
  if (ttft_ms && record.ttft_ms() > *ttft_ms) return false;
  if (tpot_ms && record.usage_tokens > 1 && record.tpot_ms() > *tpot_ms) return false;
  return !e2el_ms || record.e2el_ms() <= *e2el_ms;
}

LoadSummary summarize(std::span<const StreamRecord> records, double seconds, const Goodput& goodput,
                      std::span<const double> percentiles) {
  LoadSummary out;
  out.seconds = seconds;
  out.num_requests = static_cast<int>(records.size());
  std::vector<double> ttft, tpot, e2el;
  int num_good = 0;
  for (const StreamRecord& record : records) {
    if (!record.failure.empty()) {
      if (out.num_failed++ == 0) out.first_failure = record.failure;
      continue;
    }
    out.input_tokens += record.prompt_tokens;
    out.output_tokens += record.usage_tokens;
    out.num_chunks += static_cast<std::int64_t>(record.chunks.size());
    ttft.push_back(record.ttft_ms());
    e2el.push_back(record.e2el_ms());
    out.mean_concurrency += out.per_second(1e-3 * record.e2el_ms());
    if (record.usage_tokens > 1) tpot.push_back(record.tpot_ms());
    if (goodput.is_kept_by(record)) ++num_good;
  }
  if (goodput.is_asked()) out.num_good = num_good;
  out.ttft_ms = Distribution::of(std::move(ttft), percentiles);
  out.tpot_ms = Distribution::of(std::move(tpot), percentiles);
  out.e2el_ms = Distribution::of(std::move(e2el), percentiles);
  out.itl_ms = Distribution::of(split_gaps(records, {}).outside, percentiles);
  const Seconds each(records);
  // A run of less than a second has no second that is whole.
  out.peak_tokens_per_s = out.output_tokens_per_s();
  for (const auto& [second, tokens] : each.tokens)
    out.peak_tokens_per_s = std::max(out.peak_tokens_per_s, tokens);
  int running = 0;
  for (const auto& [second, more] : each.answers)
    out.peak_concurrency = std::max(out.peak_concurrency, running += more);
  return out;
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
