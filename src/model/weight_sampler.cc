#include "model/weight_sampler.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace glint {
namespace {

constexpr int kTableBits = 15;         // of 16 random bits one is the sign
constexpr std::int64_t kPerBlock = 8;  // draws from the 128 bits of one philox block
constexpr double kOutliers = 0.005, kOutlierDeviation = 4;

// P(|X| > x) of the mixture.
double tail(double x) {
  return (1 - kOutliers) * std::erfc(x / std::sqrt(2.0)) +
         kOutliers * std::erfc(x / (std::sqrt(2.0) * kOutlierDeviation));
}

}  // namespace

WeightSampler::WeightSampler() : quantiles_(std::size_t{1} << kTableBits) {
  const double variance = 1 - kOutliers + kOutliers * kOutlierDeviation * kOutlierDeviation;
  const double size = static_cast<double>(quantiles_.size());
  double low = 0;  // the quantile before is a lower bound
  for (std::size_t i = 0; i < quantiles_.size(); ++i) {
    const double target = 1 - (static_cast<double>(i) + 0.5) / size;
    double high = 8 * kOutlierDeviation;
    double x = low;
    for (int step = 0; step < 40; ++step) {
      const double middle = (x + high) / 2;
      (tail(middle) > target ? x : high) = middle;
    }
    quantiles_[i] = static_cast<float>(x / std::sqrt(variance));
    low = x;
  }
}

void WeightSampler::fill(const Draws& draws, float* out) const {
  const float* table = quantiles_.data();
  const auto value = [&](std::uint32_t bits) {
    const float magnitude = table[bits & ((1u << kTableBits) - 1)];
    return draws.mean + draws.deviation * (bits >> kTableBits & 1 ? -magnitude : magnitude);
  };
  const std::int64_t end = draws.begin + draws.count;
  for (std::int64_t i = draws.begin; i < end;) {
    const std::int64_t block = i / kPerBlock;
    const auto words = philox(draws.seed, draws.stream, static_cast<std::uint64_t>(block));
    float values[kPerBlock];
    for (int w = 0; w < 4; ++w) {
      values[2 * w] = value(words[static_cast<std::size_t>(w)] & 0xffff);
      values[2 * w + 1] = value(words[static_cast<std::size_t>(w)] >> 16);
    }
    const std::int64_t first = i - block * kPerBlock;
    const std::int64_t count = std::min(kPerBlock - first, end - i);
    std::copy_n(values + first, count, out + (i - draws.begin));
    i += count;
  }
}

}  // namespace glint
