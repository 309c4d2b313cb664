#include "engine/step_costs.h"

#include <algorithm>
#include <bit>

namespace glint {
namespace {

std::size_t bucket(int num_decoding) {
  return static_cast<std::size_t>(
             std::bit_width(static_cast<unsigned>(std::max(1, num_decoding)))) -
         1;
}

// Gives each new value a `weight`; the first counts alone.
void average(double& mean, double value, double weight) {
  mean = mean == 0 ? value : mean + weight * (value - mean);
}

}  // namespace

void StepCosts::record(const StepShape& shape, double seconds) {
  if (seconds <= 0) return;
  if (shape.prompt_tokens == 0) {
    if (shape.num_decoding > 0) average(plain_[bucket(shape.num_decoding)], seconds, 0.2);
    steps_with_prompts_ = 0;
    return;
  }
  ++steps_with_prompts_;
  // A step costs something before its first row, which a plain step for one pays as well. What is
  // left may be noise; a tenth of the step is the least that we believe.
  const double plain = plain_seconds(shape.num_decoding);
  const double each = std::max(seconds - plain, 0.1 * seconds) / shape.prompt_tokens;
  // Quick to see that tokens cost more, or the others would feel it; slow to believe in less.
  average(per_prompt_token_, each, each > per_prompt_token_ ? 0.5 : 0.1);
}

int StepCosts::prompt_budget(int num_decoding, double max_slowdown, int max_tokens) {
  if (num_decoding == 0 || max_slowdown <= 0) return max_tokens;
  if (steps_with_prompts_ >= kMeasureEvery) return 0;
  const double plain = plain_seconds(num_decoding);
  if (plain == 0 || per_prompt_token_ == 0) return std::min(kUnknownBudget, max_tokens);
  constexpr double kMargin = 0.9;  // steps vary
  const double tokens = kMargin * (max_slowdown - 1) * plain / per_prompt_token_;
  return static_cast<int>(
      std::clamp<double>(tokens, std::min(kMinPromptTokens, max_tokens), max_tokens));
}

// Where it was not measured, of the next smaller number of sequences (or else the next greater):
// too little rather than too much.
double StepCosts::plain_seconds(int num_decoding) const {
  const std::size_t at = bucket(num_decoding);
  for (std::size_t i = at + 1; i-- > 0;)
    if (plain_[i] > 0) return plain_[i];
  for (std::size_t i = at + 1; i < plain_.size(); ++i)
    if (plain_[i] > 0) return plain_[i];
  return 0;
}

}  // namespace glint
