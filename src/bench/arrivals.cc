#include "bench/arrivals.h"

#include <cmath>

#include "base/random.h"

namespace glint {
namespace {

// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); mean `shape`.
double gamma(Random& random, double shape) {
  if (shape < 1) return gamma(random, shape + 1) * std::pow(1 - random.uniform(), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1 - random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

}  // namespace

std::vector<double> arrival_times(const Arrivals& arrivals, int count) {
  std::vector<double> out(static_cast<std::size_t>(count), 0.0);
  const bool ramps = arrivals.ramp_end > 0;
  if (count == 0 || (arrivals.rate <= 0 && !ramps)) return out;
  Random random(arrivals.seed, 0x61727269);  // a stream of its own
  double now = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double done = count > 1 ? static_cast<double>(i) / (count - 1) : 1;
    const double rate =
        !ramps ? arrivals.rate
        : arrivals.exponential
            ? arrivals.ramp_start * std::pow(arrivals.ramp_end / arrivals.ramp_start, done)
            : arrivals.ramp_start + (arrivals.ramp_end - arrivals.ramp_start) * done;
    now += gamma(random, arrivals.burstiness) / (rate * arrivals.burstiness);
    out[i] = now;
  }
  if (!ramps && now > 0) {
    for (double& time : out) time *= count / arrivals.rate / now;
  }
  return out;
}

}  // namespace glint
