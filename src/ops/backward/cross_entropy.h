// log_probs: log-probabilities of targets and the entropy of each row. cross_entropy: a gradient
// that is given by them, of the logits.
//
//   z = logits[r] / temperature,  p = softmax(z),  y = targets[r]
//   log_probs[r] = log p[y]
//   entropies[r] = -sum_i p[i] log p[i]
//   logits[r] = (scales[r] (p - onehot(y)) + entropy_scales[r] p (log p + entropies[r])) /
//   temperature
//
// which is the gradient of sum_r -(scales[r] * log_probs[r] + entropy_scales[r] * entropies[r]).
// Exponentials are summed in f64, as log p = -log1p(others / chosen) and 1 - p = others / sum: in
// f32 the tail beside a likely token, which is the gradient of rare experts, would be rounding
// alone. A row whose target is -1 gets zeros. log_probs of a row that is no number are NaN. Both
// ops give the same bits of log_probs.
#pragma once

#include "ops/cost.h"
#include "tensor/tensor.h"

namespace glint {

struct LogProbsArgs {
  Tensor logits = {};     // [R, V] f32; rows may be strided
  Tensor targets = {};    // [R] i32 in [-1, V)
  float temperature = 1;  // positive
  Tensor log_probs = {};  // [R] f32, written
  Tensor entropies = {};  // [R] f32, written
};
void check(const LogProbsArgs& args);
OpCost cost(const LogProbsArgs& args);

struct CrossEntropyArgs {
  Tensor logits = {};   // [R, V] f32, read; then their gradient, written; rows may be strided
  Tensor targets = {};  // [R] i32 in [-1, V)
  Tensor scales = {};   // [R] f32: minus the derivative of the loss by log_probs[r]
  Tensor entropy_scales = {};  // [R] f32: minus that by entropies[r]; empty: zeros
  float temperature = 1;       // positive
  Tensor log_probs = {};       // [R] f32, written
};
void check(const CrossEntropyArgs& args);
OpCost cost(const CrossEntropyArgs& args);

inline constexpr double kCrossEntropyTolerance = 2e-6;

}  // namespace glint
