// Ranks among measured values. Percentiles with a line between two values, as numpy has them, are
// those of bench/distribution.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/check.h"

namespace glint {

// The middle one of `values`, of which there must be one; of an even number, the mean of two.
inline double median(std::vector<double> values) {
  GLINT_CHECK(!values.empty(), "a median needs values");
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

// The smallest of `values` that at least `share` (0 < share <= 1) of them do not exceed (nearest
// rank). Reorders them; there must be one.
template <class T>
double quantile(std::vector<T>& values, double share) {
  GLINT_CHECK(!values.empty() && share > 0 && share <= 1, "a quantile needs values");
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const auto at = values.begin() + (static_cast<std::ptrdiff_t>(rank) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace glint
