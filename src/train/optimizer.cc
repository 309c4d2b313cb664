#include "train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/ceil_div.h"
#include "base/thread_pool.h"

namespace glint {
namespace {

// f(begin, end) for blocks of [0, size), on all threads.
template <class F>
void for_blocks(std::size_t size, ThreadPool& pool, F f) {
  const auto all = static_cast<std::int64_t>(size);
  pool.run(ceil_div(all, kNormBlock), [&](std::int64_t block, int) {
    f(static_cast<std::size_t>(block * kNormBlock),
      static_cast<std::size_t>(std::min(all, (block + 1) * kNormBlock)));
  });
}

}  // namespace

void adamw(const AdamWStep& step, std::span<const float> gradient, std::span<float> weights,
           std::span<float> exp_avg, std::span<float> exp_avg_sq, ThreadPool& pool) {
  const auto t = static_cast<double>(step.step);
  const auto keep = static_cast<float>(1 - step.lr * step.weight_decay);
  const auto size = static_cast<float>(step.lr / (1 - std::pow(step.beta1, t)));
  const auto root = static_cast<float>(std::sqrt(1 - std::pow(step.beta2, t)));
  const auto beta1 = static_cast<float>(step.beta1), beta2 = static_cast<float>(step.beta2);
  const auto rest1 = static_cast<float>(1 - step.beta1);
  const auto rest2 = static_cast<float>(1 - step.beta2);
  const auto eps = static_cast<float>(step.eps), scale = static_cast<float>(step.gradient_scale);
  for_blocks(weights.size(), pool, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const float g = gradient[i] * scale;
      exp_avg[i] = beta1 * exp_avg[i] + rest1 * g;
      exp_avg_sq[i] = beta2 * exp_avg_sq[i] + rest2 * g * g;
      weights[i] = keep * weights[i] - size * exp_avg[i] / (std::sqrt(exp_avg_sq[i]) / root + eps);
    }
  });
}

std::vector<double> squares_of(std::span<const float> values, ThreadPool& pool) {
  std::vector<double> parts(ceil_div(values.size(), kNormBlock));
  for_blocks(values.size(), pool, [&](std::size_t begin, std::size_t end) {
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += double{values[i]} * values[i];
    parts[begin / kNormBlock] = sum;
  });
  return parts;
}

double norm_of_squares(std::span<const double> squares) {
  double sum = 0;
  for (const double part : squares) sum += part;
  return std::sqrt(sum);
}

double clip_scale(double norm, double clip) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1;
}

double LearningRate::at(std::int64_t step) const {
  if (step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  const double done =
      std::min(1.0, static_cast<double>(step - 1 - warmup) /
                        static_cast<double>(std::max<std::int64_t>(total - warmup, 1)));
  switch (decay) {
    case Decay::kConstant:
      return peak;
    case Decay::kLinear:
      return peak + (least - peak) * done;
    case Decay::kCosine:
      break;
  }
  return least + (peak - least) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace glint
