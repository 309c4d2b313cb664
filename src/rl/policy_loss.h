// The losses of policies: pure functions of log-probabilities and advantages, with their
// derivatives. For a token t of an answer with advantage A,
//
//   d[t] = new[t] - old[t], limited to +-20,  r[t] = e^d[t]
//   kGrpo   max(-r A, -clip(r, 1 - eps, 1 + eps_high) A);
//           with eps_c > 1 and A < 0, at most -eps_c A
//   kGspo   the same, with d[t] the mean of new - old over the answer (arXiv 2507.18071)
//   kCispo  -clip(r, 1 - eps, 1 + eps_high) A new[t], where the clipped r counts as a constant
//           (arXiv 2506.13585, whose runs had eps = 1)
//
// each times a weight of the token, which counts as a constant (TIS, IcePop), plus
// kl_coef * KL(new, ref) - entropy_coef * entropy.
#pragma once

#include <span>

namespace glint {

enum class PolicyLossKind { kGrpo, kGspo, kCispo };

// Estimates of KL(new || ref) from one token, with d = new - ref (Schulman, "Approximating KL
// divergence"): d; d^2 / 2; e^-d - 1 + d; and the last with d limited to +-20 and the result to 10.
enum class KlKind { kK1, kK2, kK3, kLowVar };

struct Term {
  double value = 0, slope = 0;  // slope: the derivative by the token's new log-probability
};
Term kl_term(KlKind kind, double new_log_prob, double ref_log_prob);

// The weight in training of a token whose log-probability rollout and training computed
// differently, by their ratio e^(trained - rollout).
struct MismatchOptions {
  // Truncated importance sampling limits the ratio to [low, high]; IcePop makes it 0 outside.
  enum class Kind { kNone, kTis, kIcePop } kind = Kind::kNone;
  double low = 0, high = 2;
};
double mismatch_ratio(double trained, double rollout);
double mismatch_weight(const MismatchOptions& options, double ratio);

struct PolicyLossOptions {
  PolicyLossKind kind = PolicyLossKind::kGrpo;
  double eps_clip = 0.2, eps_clip_high = 0.2;
  double eps_clip_c = 0;  // of the dual clip, above 1; 0: none
  double kl_coef = 0;
  KlKind kl = KlKind::kK1;
  MismatchOptions mismatch = {};
};

// Tokens of one answer that the model chose, all of them or a piece: spans of one length.
struct PolicyTokens {
  std::span<const float> new_log_probs = {};
  std::span<const float> old_log_probs = {};  // empty: the new ones
  std::span<const float> ref_log_probs = {};  // needed where kl_coef is not 0
  std::span<const double> mismatches = {};    // mismatch_ratio() of each; empty: 1 each
  double advantage = 0;
  // kGspo: means over the whole answer, of new - old and of the weights.
  double answer_difference = 0, answer_weight = 1;
};
double mean_difference(std::span<const float> new_log_probs, std::span<const float> old_log_probs);

// Sums over the tokens of answers, for metrics too.
struct PolicySums {
  double loss = 0, policy = 0, kl = 0;
  double clipped = 0;           // tokens whose derivative the clip took
  double old_new_kl = 0;        // of old - new, k1
  double mismatch = 0;          // ratios before they are limited
  double mismatch_clipped = 0;  // tokens whose weight is not their ratio
  double weight = 0, weight_squared = 0;
  double tokens = 0;

  void add(const PolicySums& other);
  // (sum of w)^2 / (n sum of w^2): the share of tokens that would say as much with equal weights.
  double ess_ratio() const;
};

// The loss summed over the tokens, times `scale`; writes its derivatives by the new
// log-probabilities.
PolicySums policy_loss(const PolicyLossOptions& options, const PolicyTokens& tokens, double scale,
                       std::span<float> d_log_probs);

// The weight of an answer's tokens so that a batch is: the mean over answers of the mean over their
// tokens (GRPO), or the mean over all tokens (DAPO).
double loss_scale(bool per_token, double answer_tokens, double batch_answers, double batch_tokens);

}  // namespace glint
