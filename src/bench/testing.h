// For tests of bench/: times.
#pragma once

#include "bench/stream_record.h"

namespace glint {

inline BenchClock::time_point at(int ms) {
  return BenchClock::time_point{} + std::chrono::milliseconds(ms);
}

}  // namespace glint
