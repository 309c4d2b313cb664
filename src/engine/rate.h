// Rate: how often something has happened lately. The past fades with a time constant.
#pragma once

#include <cmath>

namespace glint {

class Rate {
 public:
  explicit Rate(double memory_seconds = 10) : memory_(memory_seconds) {}

  // `seconds` went by, at whose end `amount` happened.
  void add(double seconds, double amount) {
    const double keep = std::exp(-seconds / memory_);
    amount_ = amount_ * keep + amount;
    time_ = time_ * keep + memory_ * (1 - keep);
  }

  // 0 while no time has gone by. `seconds` since the last add() are counted as well.
  double per_second(double seconds = 0) const {
    const double keep = std::exp(-seconds / memory_);
    const double time = time_ * keep + memory_ * (1 - keep);
    return time > 0 ? amount_ * keep / time : 0;
  }

 private:
  double memory_, amount_ = 0, time_ = 0;
};

}  // namespace glint
