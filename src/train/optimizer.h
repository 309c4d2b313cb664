// AdamW over flat arrays, in f32 as torch.optim.AdamW computes it, the norm that gradients are
// clipped by, and schedules of the learning rate. Bits do not depend on threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace glint {

class ThreadPool;

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.98, eps = 1e-8;
  double weight_decay = 0.1;  // decoupled: weights shrink by lr * weight_decay a step
  double clip_grad = 1;       // gradients are scaled to this norm if theirs is larger; 0: never
};

// One update of some weights. `step` counts from 1; `gradient_scale` is what clipping multiplies
// gradients by. All arrays have one size.
struct AdamWStep {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  std::int64_t step = 1;
  double gradient_scale = 1;
};
void adamw(const AdamWStep& step, std::span<const float> gradient, std::span<float> weights,
           std::span<float> exp_avg, std::span<float> exp_avg_sq, ThreadPool& pool);

// Sums of squares in f64 of blocks of a fixed size, in order; and the 2-norm, which whoever has all
// of them takes from these.
inline constexpr std::int64_t kNormBlock = 1 << 15;
std::vector<double> squares_of(std::span<const float> values, ThreadPool& pool);
double norm_of_squares(std::span<const double> squares);

// clip / norm where the norm is larger, else 1; as torch.nn.utils.clip_grad_norm_.
double clip_scale(double norm, double clip);

enum class Decay : std::uint8_t { kConstant, kLinear, kCosine };

// Rises from 0, which the first step has, to `peak` over `warmup` steps, then falls to `least`,
// which it has after step `total`: the last step learns, and without a warm-up so does an only one
// (Megatron's schedule).
struct LearningRate {
  double peak = 1e-6, least = 0;
  std::int64_t warmup = 0, total = 1;
  Decay decay = Decay::kConstant;

  // The rate of step number `step`, from 1.
  double at(std::int64_t step) const;
};

}  // namespace glint
