// cross_entropy: log-probabilities of targets, and what they say of the logits, in one sweep.
//
//   z = logits[r] / temperature,  p = softmax(z),  y = targets[r]
//   log_probs[r] = log p[y]
//   logits[r] = scales[r] / temperature * (p - onehot(y))
//
// which is the gradient of sum_r -scales[r] * log_probs[r]. Exponentials are summed in f64, as
// log p = -log1p(others / chosen) and 1 - p = others / sum: in f32 the tail beside a likely token,
// which is the gradient of rare experts, would be rounding alone. A row whose target is -1 gets
// zeros. log_probs of a row that is no number are NaN.
#pragma once

#include "ops/cost.h"
#include "tensor/tensor.h"

namespace glint {

struct CrossEntropyArgs {
  Tensor logits = {};     // [R, V] f32, read; then their gradient, written; rows may be strided
  Tensor targets = {};    // [R] i32 in [-1, V)
  Tensor scales = {};     // [R] f32: minus the derivative of the loss by log_probs[r]
  float temperature = 1;  // positive
  Tensor log_probs = {};  // [R] f32, written
};
void check(const CrossEntropyArgs& args);
OpCost cost(const CrossEntropyArgs& args);

inline constexpr double kCrossEntropyTolerance = 2e-6;

}  // namespace glint
