// The effect of long prompts on decoding streams: a closed loop of streams, and beside it prompts
// that come one at a time, with a pause of plain decoding before each.
#include <algorithm>
#include <deque>

#include "base/seconds.h"
#include "bench/load.h"

namespace glint {
namespace {

constexpr std::size_t kWarmChunks = 4;  // of each stream before anything is measured
constexpr double kLookAgainSeconds = 0.02;

void count_failures(const std::deque<StreamRecord>& records, LongPromptResult& out) {
  for (const StreamRecord& record : records) {
    if (record.failure.empty()) continue;
    if (out.num_failed++ == 0) out.first_failure = record.failure;
  }
}

// The gaps between tokens of `streams`, from `pause_seconds` before the first long prompt on.
LongPromptResult summarize(std::deque<StreamRecord> streams, const std::deque<StreamRecord>& longs,
                           double pause_seconds) {
  LongPromptResult out;
  count_failures(streams, out);
  count_failures(longs, out);
  std::vector<Interval> reading;
  for (const StreamRecord& record : longs) {
    if (record.chunks.empty()) continue;
    reading.push_back({record.start, record.chunks.front()});
    out.prefill_ms.push_back(record.ttft_ms());
  }
  // Chunks before the streams were warm belong to their own prompts.
  const BenchClock::time_point first =
      reading.empty() ? BenchClock::time_point::max() : reading.front().begin;
  const auto pause = from_seconds(pause_seconds);
  for (StreamRecord& record : streams) {
    auto& chunks = record.chunks;
    chunks.erase(chunks.begin(), std::find_if(chunks.begin(), chunks.end(),
                                              [&](const auto& at) { return at >= first - pause; }));
  }
  const std::vector<StreamRecord> records(streams.begin(), streams.end());
  SplitGaps gaps = split_gaps(records, reading);
  out.plain_ms = Distribution::of(std::move(gaps.outside));
  out.beside_ms = Distribution::of(std::move(gaps.inside));
  return out;
}

}  // namespace

LongPromptResult LoadGenerator::run_long_prompts(const LongPromptOptions& options) {
  std::deque<StreamRecord> streams, longs;  // whose elements stay where they are
  bool stopping = false;
  int next_index = 0;
  const std::function<void()> send_stream = [&] {
    if (stopping) return;
    streams.emplace_back();
    stream(
        body(options.prompts, next_index++, true), wanted(options.prompts.output_len),
        streams.back(), [&] { return !stopping; },
        [&, &record = streams.back()] {
          if (record.failure.empty()) client_->after(0, send_stream);
        });
  };
  PromptOptions long_prompt = options.prompts;
  long_prompt.input_len = options.long_len;
  long_prompt.output_len = 1;
  long_prompt.seed += 1;  // no beginning in common with the streams
  const std::function<void()> send_long = [&] {
    const auto index = static_cast<int>(longs.size());
    longs.emplace_back();
    stream(
        body(long_prompt, index, true), wanted(1), longs.back(), [] { return true; },
        [&] {
          stopping =
              static_cast<int>(longs.size()) >= options.repeat || !longs.back().failure.empty();
          if (!stopping) client_->after(options.pause_seconds, send_long);
        });
  };
  // The streams are warm when each of the first has decoded a little, or failed, or as many were
  // answered: answers may be shorter.
  const std::function<void()> begin_when_warm = [&] {
    const bool warm = std::all_of(
        streams.begin(), streams.begin() + options.concurrency, [](const StreamRecord& record) {
          return record.chunks.size() >= kWarmChunks || !record.failure.empty();
        });
    warm || static_cast<int>(streams.size()) >= 2 * options.concurrency
        ? client_->after(options.pause_seconds, send_long)
        : client_->after(kLookAgainSeconds, begin_when_warm);
  };
  for (int i = 0; i < options.concurrency; ++i) send_stream();
  begin_when_warm();
  client_->run();

  return summarize(std::move(streams), longs, options.pause_seconds);
}

}  // namespace glint
