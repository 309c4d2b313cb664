// Times of the steady clock as seconds, in doubles; of CPUs; and what day it is.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace glint {

inline double seconds_between(std::chrono::steady_clock::time_point begin,
                              std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return seconds_between(begin, std::chrono::steady_clock::now());
}

inline std::chrono::steady_clock::duration from_seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

// CPU time: by CLOCK_THREAD_CPUTIME_ID this thread's, by CLOCK_PROCESS_CPUTIME_ID all
// threads'.
inline double cpu_seconds(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Since 1970.
inline std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace glint
