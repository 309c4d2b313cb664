// WeightSampler: random values shaped like trained weights: normal, with the few outliers that make
// quantisation hard.
#pragma once

#include <cstdint>
#include <vector>

namespace glint {

// Draws are a function of (seed, stream, index) alone, so any part of a tensor can be made by any
// thread. Each takes 16 random bits, looked up in a table of quantiles of
//   0.995 N(0, 1) + 0.005 N(0, 4^2), scaled to variance 1: the largest are near 11.
class WeightSampler {
 public:
  WeightSampler();

  // out[i] = mean + deviation * draw(begin + i).
  struct Draws {
    std::uint64_t seed = 0, stream = 0;
    std::int64_t begin = 0, count = 0;
    float mean = 0, deviation = 1;
  };
  void fill(const Draws& draws, float* out) const;

  // No draw is larger in magnitude.
  float largest() const { return quantiles_.back(); }

 private:
  std::vector<float> quantiles_;  // of the magnitude, at (i + 0.5) / size
};

}  // namespace glint
