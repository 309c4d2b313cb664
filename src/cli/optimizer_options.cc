#include "cli/optimizer_options.h"

#include "base/str.h"
#include "cli/option_checks.h"

namespace glint {

Status OptimizerOptions::check() const {
  GLINT_TRY_STATUS(check_range("lr", lr, 0, 1));
  if (lr_decay_style == "constant" && min_lr > 0) {
    return invalid(
        "--min-lr is reached by --lr-decay-style linear and cosine; with constant leave it out");
  }
  GLINT_TRY_STATUS(check_range("min-lr", min_lr, 0, lr));
  GLINT_TRY_STATUS(check_range("lr-warmup-iters", lr_warmup_iters, 0, 1'000'000'000));
  GLINT_TRY_STATUS(check_range("adam-beta1", adam_beta1, 0, 0.9999999));
  GLINT_TRY_STATUS(check_range("adam-beta2", adam_beta2, 0, 0.9999999));
  GLINT_TRY_STATUS(check_range("adam-eps", adam_eps, 1e-30, 1));
  GLINT_TRY_STATUS(check_range("weight-decay", weight_decay, 0, 100));
  return check_range("clip-grad", clip_grad, 0, 1e9);
}

AdamWOptions OptimizerOptions::adamw() const {
  return {.beta1 = adam_beta1,
          .beta2 = adam_beta2,
          .eps = adam_eps,
          .weight_decay = weight_decay,
          .clip_grad = clip_grad};
}

LearningRate OptimizerOptions::learning_rate(std::int64_t total_steps) const {
  Decay decay = Decay::kConstant;
  if (lr_decay_style == "linear") decay = Decay::kLinear;
  if (lr_decay_style == "cosine") decay = Decay::kCosine;
  return {
      .peak = lr, .least = min_lr, .warmup = lr_warmup_iters, .total = total_steps, .decay = decay};
}

std::string OptimizerOptions::schedule(std::int64_t total_steps) const {
  return str(lr_decay_style,
             lr_decay_style == "constant" ? "" : " over " + counted(total_steps, "step"),
             lr_warmup_iters > 0 ? str(" with a warm-up of ", lr_warmup_iters) : "");
}

std::string OptimizerOptions::note_after(const Json& state, std::int64_t total_steps) const {
  const Json* const had = state.find("schedule");
  const std::string now = schedule(total_steps);
  if (!had || !had->is_string() || had->as_string() == now) return {};
  return str("the learning rate was ", had->as_string(), " and is ", now,
             ": the result is not that of one run");
}

}  // namespace glint
