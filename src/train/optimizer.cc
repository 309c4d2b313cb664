#include "train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/ceil_div.h"
#include "base/thread_pool.h"

namespace glint {
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
  pool.run_blocks(std::ssize(weights), kNormBlock, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const float g = gradient[i] * scale;
      exp_avg[i] = beta1 * exp_avg[i] + rest1 * g;
      exp_avg_sq[i] = beta2 * exp_avg_sq[i] + rest2 * g * g;
      weights[i] = keep * weights[i] - size * exp_avg[i] / (std::sqrt(exp_avg_sq[i]) / root + eps);
    }
  });
}

std::vector<double> squares_of(std::span<const float> values, ThreadPool& pool) {
  std::vector<double> parts(ceil_div(values.size(), kNormBlock));
  pool.run_blocks(std::ssize(values), kNormBlock, [&](std::int64_t begin, std::int64_t end) {
    double sum = 0;
    for (const float v :
         values.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)))
      sum += double{v} * v;
    parts[static_cast<std::size_t>(begin / kNormBlock)] = sum;
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
  const std::int64_t before = step - 1;
  if (before < warmup) return peak * static_cast<double>(before) / static_cast<double>(warmup);
  const double done =
      std::min(1.0, static_cast<double>(before - warmup) /
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
