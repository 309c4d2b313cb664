// When requests come, in an open loop.
#pragma once

#include <cstdint>
#include <vector>

namespace glint {

// Gaps between requests are drawn from a gamma distribution with the shape `burstiness` and the
// mean 1 / rate: 1 is a Poisson process, less is burstier, more is more even.
struct Arrivals {
  double rate = 0;  // requests a second; 0: all at once
  double burstiness = 1;
  // If not 0, the rate goes from `ramp_start` to `ramp_end` from the first request to the last, in
  // a straight line or, with `exponential`, by equal factors.
  double ramp_start = 0, ramp_end = 0;
  bool exponential = false;
  std::uint64_t seed = 0;

  bool are_at_once() const { return rate == 0 && ramp_end == 0; }
};

// Seconds from the beginning, ascending, the first after a gap. Without a ramp they are stretched
// so that the last comes at count / rate, as vLLM's benchmark does.
std::vector<double> arrival_times(const Arrivals& arrivals, int count);

}  // namespace glint
