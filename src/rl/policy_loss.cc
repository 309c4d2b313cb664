#include "rl/policy_loss.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace glint {
namespace {

constexpr double kMaxDifference = 20;

// The surrogate by d = log r, and whether the clip took its derivative.
struct Surrogate {
  double value = 0, slope = 0;
  bool clipped = false;
};

// new - old in its limits; NaN counts as no difference.
double limited(double difference) {
  return std::isnan(difference) ? 0 : std::clamp(difference, -kMaxDifference, kMaxDifference);
}

Surrogate clipped_surrogate(const PolicyLossOptions& o, double difference, double advantage) {
  const double d = limited(difference);
  const double ratio = std::exp(d);
  const double plain = -ratio * advantage;
  const double within = -std::clamp(ratio, 1 - o.eps_clip, 1 + o.eps_clip_high) * advantage;
  const bool moves = d == difference;  // beyond the limits the ratio is a constant
  Surrogate s = {plain, moves ? plain : 0, false};
  if (within > plain) s = {within, 0, true};
  if (o.eps_clip_c > 0 && advantage < 0 && s.value > -o.eps_clip_c * advantage) {
    s = {-o.eps_clip_c * advantage, 0, true};
  }
  return s;
}

Surrogate cispo_surrogate(const PolicyLossOptions& o, double difference, double advantage,
                          double new_log_prob) {
  const double ratio = std::exp(limited(difference));
  const double weight = std::clamp(ratio, 1 - o.eps_clip, 1 + o.eps_clip_high);
  return {-weight * advantage * new_log_prob, -weight * advantage, ratio != weight};
}

}  // namespace

Term kl_term(KlKind kind, double new_log_prob, double ref_log_prob) {
  const double d = new_log_prob - ref_log_prob;
  switch (kind) {
    case KlKind::kK1:
      return {d, 1};
    case KlKind::kK2:
      return {d * d / 2, d};
    case KlKind::kK3:
      return {std::exp(-d) - 1 + d, 1 - std::exp(-d)};
    case KlKind::kLowVar:
      break;
  }
  constexpr double kMaxKl = 10;
  const double limited = std::clamp(d, -kMaxDifference, kMaxDifference);
  const double kl = std::exp(-limited) - 1 + limited;
  if (kl > kMaxKl) return {kMaxKl, 0};
  return {kl, limited == d ? 1 - std::exp(-d) : 0};
}

double mismatch_ratio(double trained, double rollout) {
  return std::exp(limited(trained - rollout));
}

double mismatch_weight(const MismatchOptions& options, double ratio) {
  if (options.kind == MismatchOptions::Kind::kNone) return 1;
  if (options.kind == MismatchOptions::Kind::kTis) {
    return std::clamp(ratio, options.low, options.high);
  }
  return ratio >= options.low && ratio <= options.high ? ratio : 0;
}

void PolicySums::add(const PolicySums& other) {
  loss += other.loss, policy += other.policy, kl += other.kl;
  clipped += other.clipped;
  old_new_kl += other.old_new_kl;
  mismatch += other.mismatch, mismatch_clipped += other.mismatch_clipped;
  weight += other.weight, weight_squared += other.weight_squared;
  tokens += other.tokens;
}

double PolicySums::ess_ratio() const {
  return weight_squared > 0 ? weight * weight / (tokens * weight_squared) : 0;
}

double mean_difference(std::span<const float> new_log_probs, std::span<const float> old_log_probs) {
  double sum = 0;
  for (std::size_t t = 0; t < new_log_probs.size(); ++t) {
    sum += double{new_log_probs[t]} - old_log_probs[t];
  }
  return sum / static_cast<double>(new_log_probs.size());
}

PolicySums policy_loss(const PolicyLossOptions& options, const PolicyTokens& tokens, double scale,
                       std::span<float> d_log_probs) {
  const std::size_t n = tokens.new_log_probs.size();
  const bool has_old = !tokens.old_log_probs.empty();
  GLINT_CHECK((!has_old || tokens.old_log_probs.size() == n) && d_log_probs.size() == n,
              "log-probabilities of other tokens");
  GLINT_CHECK(tokens.mismatches.empty() || tokens.mismatches.size() == n, "ratios of other tokens");
  GLINT_CHECK(options.kl_coef == 0 || tokens.ref_log_probs.size() == n,
              "a KL needs the reference's log-probabilities");
  const auto difference = [&](std::size_t t) {
    return has_old ? double{tokens.new_log_probs[t]} - tokens.old_log_probs[t] : 0;
  };
  const bool by_answer = options.kind == PolicyLossKind::kGspo;
  PolicySums sums;
  for (std::size_t t = 0; t < n; ++t) {
    const double mismatch = tokens.mismatches.empty() ? 1 : tokens.mismatches[t];
    const double weight = mismatch_weight(options.mismatch, mismatch);
    const Surrogate s =
        options.kind == PolicyLossKind::kCispo
            ? cispo_surrogate(options, difference(t), tokens.advantage, tokens.new_log_probs[t])
            : clipped_surrogate(options, by_answer ? tokens.answer_difference : difference(t),
                                tokens.advantage);
    Term kl;
    if (options.kl_coef != 0) {
      kl = kl_term(options.kl, tokens.new_log_probs[t], tokens.ref_log_probs[t]);
    }
    // Each token moves the mean of GSPO's answer, and so the terms of all its tokens.
    const double weight_of_slope = by_answer ? tokens.answer_weight : weight;
    d_log_probs[t] =
        static_cast<float>(scale * (weight_of_slope * s.slope + options.kl_coef * kl.slope));
    sums.policy += scale * weight * s.value;
    sums.kl += kl.value;
    sums.loss += scale * (weight * s.value + options.kl_coef * kl.value);
    sums.clipped += s.clipped;
    sums.old_new_kl -= difference(t);
    sums.mismatch += mismatch;
    sums.mismatch_clipped += weight != mismatch;
    sums.weight += weight;
    sums.weight_squared += weight * weight;
  }
  sums.tokens = static_cast<double>(n);
  return sums;
}

double loss_scale(bool per_token, double answer_tokens, double batch_answers, double batch_tokens) {
  return per_token ? 1 / batch_tokens : 1 / (answer_tokens * batch_answers);
}

}  // namespace glint
