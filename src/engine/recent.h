// Recent: the last N values of a noisy measurement, and their median, which single outliers do not
// move.
#pragma once

#include <array>

#include "base/statistics.h"

namespace glint {

template <int N>
class Recent {
 public:
  void add(double value) {
    values_[static_cast<std::size_t>(next_)] = value;
    next_ = (next_ + 1) % N;
    size_ = std::min(size_ + 1, N);
  }
  void clear() { next_ = size_ = 0; }
  bool empty() const { return size_ == 0; }

  // For an even number of values, the lower middle one; 0 if there is none.
  double median() const {
    if (empty()) return 0;
    std::vector<double> values(values_.begin(), values_.begin() + size_);
    return quantile(values, 0.5);
  }

 private:
  std::array<double, N> values_ = {};
  int size_ = 0, next_ = 0;
};

}  // namespace glint
