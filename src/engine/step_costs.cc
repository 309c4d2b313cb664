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

}  // namespace

void StepCosts::record(const StepShape& shape, double seconds) {
  if (seconds <= 0) return;
  if (shape.prompt_tokens == 0) {
    Recent<7>& plain = plain_[bucket(shape.num_decoding)];
    // After a long time with prompts the sequences are longer, and what was measured is old.
    if (steps_with_prompts_ >= kMeasureEvery / 4) plain.clear();
    if (shape.num_decoding > 0) plain.add(seconds);
    plain_steps_due_ = std::max(0, plain_steps_due_ - 1);
    steps_with_prompts_ = 0;
    return;
  }
  if (++steps_with_prompts_ == kMeasureEvery) plain_steps_due_ = kPlainSteps;
  // A step costs something before its first row, which a plain step for one pays as well. What is
  // left may be noise; a tenth of the step is the least that we believe.
  const double plain = plain_seconds(shape.num_decoding);
  per_prompt_token_.add(std::max(seconds - plain, 0.1 * seconds) / shape.prompt_tokens);
}

int StepCosts::prompt_budget(int num_decoding, double max_slowdown, double unseen_seconds,
                             int max_tokens) const {
  if (num_decoding == 0 || max_slowdown <= 0) return max_tokens;
  if (plain_steps_due_ > 0) return 0;
  const double plain = plain_seconds(num_decoding), each = per_prompt_token_.median();
  if (plain == 0 || each == 0) return std::min(kUnknownBudget, max_tokens);
  constexpr double kMargin = 0.9;  // steps vary
  const double longest = std::max(max_slowdown * plain, unseen_seconds);
  const double tokens = kMargin * (longest - plain) / each;
  return static_cast<int>(
      std::clamp<double>(tokens, std::min(kMinPromptTokens, max_tokens), max_tokens));
}

// Where it was not measured, of the next smaller number of sequences (or else the next greater):
// too little rather than too much.
double StepCosts::plain_seconds(int num_decoding) const {
  const std::size_t at = bucket(num_decoding);
  for (std::size_t i = at + 1; i-- > 0;)
    if (!plain_[i].empty()) return plain_[i].median();
  for (std::size_t i = at + 1; i < plain_.size(); ++i)
    if (!plain_[i].empty()) return plain_[i].median();
  return 0;
}

}  // namespace glint
