// Distribution: some values by their mean, spread and percentiles.
#pragma once

#include <cstddef>
#include <vector>

#include "base/json.h"

namespace glint {

// Zeros if there are no values. Percentiles are those of numpy and so of the common serving
// benchmarks: between two values the line that joins them.
struct Distribution {
  std::size_t count = 0;
  double mean = 0, std = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;

  static Distribution of(std::vector<double> values);
};

// {"mean": ..., "p50": ..., ..., "count": ...}
Json to_json(const Distribution& distribution);

}  // namespace glint
