// Pace: how fast steps follow each other, tokens come and the queue moves. It is told times and
// reads no clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/seconds.h"
#include "engine/rate.h"

namespace glint {

class Pace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `read`: rows of all slices but decodes, so again after a preemption.
  struct Tokens {
    std::uint64_t read = 0, generated = 0;
  };

  // A step ran. Returns the seconds between the one before and it: what the host costs.
  double step(Time begin, Time end, Tokens tokens) {
    const Time since = last_end_.value_or(begin);
    if (waits_ || started_ > 0) starts_.add(seconds_between(since, end), started_);
    started_ = 0;
    busy_.add(seconds_between(since, end), static_cast<double>(tokens.read + tokens.generated));
    generated_.add(seconds_between(last_step_.value_or(begin), end),
                   static_cast<double>(tokens.generated));
    last_end_ = last_step_ = end;
    return std::max(0.0, seconds_between(since, begin));
  }

  // Nothing is in flight: asleep, not slow.
  void rest() { last_end_.reset(); }

  // So many requests leave the queue with the next step; time counts only while steps run and
  // somebody waits there.
  void started(int count, bool others_wait) {
    if (waits_) started_ += count;
    waits_ = others_wait;
  }

  // Seconds until a queue of so many requests and tokens is gone, a day at most: the requests at
  // the pace at which it moved lately, the tokens at the pace of all tokens, while steps ran.
  double queue_seconds(int num_requests, std::int64_t num_tokens) const {
    constexpr double kMost = 24 * 3600;
    if (num_requests == 0) return 0;
    const double by_starts = starts_.per_second(), by_tokens = busy_.per_second();
    return std::min(kMost,
                    std::max(by_starts > 0 ? num_requests / by_starts : 0,
                             by_tokens > 0 ? static_cast<double>(num_tokens) / by_tokens : 0));
  }

  // Lately, by the clock: it falls while nothing runs.
  double generated_per_second(Time now) const {
    return generated_.per_second(last_step_ ? seconds_between(*last_step_, now) : 0);
  }

 private:
  std::optional<Time> last_end_;   // of the step before, unless nothing was in flight since
  std::optional<Time> last_step_;  // the same, whatever was since
  bool waits_ = false;             // somebody, beside those that the last plan started
  int started_ = 0;                // since the last step, while somebody waited
  Rate busy_, generated_, starts_;
};

}  // namespace glint
