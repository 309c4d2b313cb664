// Distribution: some values by their mean, spread and percentiles.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"

namespace glint {

struct Percentile {
  double percent = 0, value = 0;

  std::string name() const;  // "p25", "p99.9"
};

// Zeros if there are no values. Percentiles are those of numpy and so of the common serving
// benchmarks: between two values the line that joins them.
struct Distribution {
  std::size_t count = 0;
  double mean = 0, std = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;

  std::vector<Percentile> asked = {};  // in the order in which they were

  static Distribution of(std::vector<double> values, std::span<const double> percentiles = {});
};

// A value of `distribution` for people: "-" if it has none.
std::string number_of(const Distribution& distribution, double value, int decimals);

// {"mean": ..., "p50": ..., ..., "count": ...}, and those that were asked for; null for what no
// values have.
Json to_json(const Distribution& distribution);

}  // namespace glint
