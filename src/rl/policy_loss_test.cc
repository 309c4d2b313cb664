#include "rl/policy_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "rl/advantage.h"

namespace glint {
namespace {

struct Outcome {
  PolicySums sums;
  std::vector<float> slopes;
};

Outcome of(const PolicyLossOptions& options, const PolicyTokens& tokens, double scale = 1) {
  Outcome out;
  out.slopes.resize(tokens.new_log_probs.size());
  out.sums = policy_loss(options, tokens, scale, out.slopes);
  return out;
}

Outcome of_one(const PolicyLossOptions& options, float new_log_prob, float old_log_prob,
               double advantage) {
  return of(options, {.new_log_probs = {&new_log_prob, 1},
                      .old_log_probs = {&old_log_prob, 1},
                      .advantage = advantage});
}

const float kLn2 = std::log(2.0f);

TEST(Advantage, WorkedByHand) {
  // Rewards 1, 0, 0, 1: mean 1/2, deviation sqrt(4 * 1/4 / 3) = 0.57735.
  const std::vector<double> rewards = {1, 0, 0, 1};
  const std::vector<double> plain = {0.5, -0.5, -0.5, 0.5};
  EXPECT_EQ(group_advantages(rewards, false), plain);
  const std::vector<double> normal = group_advantages(rewards, true);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(normal[i], plain[i] / 0.5773512691896257, 1e-12);
  EXPECT_EQ(group_advantages(std::vector<double>{1, 1, 1}, true), std::vector<double>(3, 0.0));
  EXPECT_EQ(group_advantages(std::vector<double>{5}, true), std::vector<double>(1, 0.0));
  // Neither is quite the mean of eight of them.
  for (const double reward : {0.1, 3e8 + 0.1}) {
    const std::vector<double> same(8, reward);
    EXPECT_FALSE(rewards_differ(same));
    EXPECT_EQ(group_advantages(same, false), std::vector<double>(8, 0.0));
    EXPECT_EQ(group_advantages(same, true), std::vector<double>(8, 0.0));
  }
  EXPECT_TRUE(rewards_differ(rewards));
  EXPECT_FALSE(rewards_differ(std::vector<double>{1}));
}

TEST(Advantage, PassRatesAreThoseOfDrawsWithoutPuttingBack) {
  EXPECT_EQ(pass_rate(4, 0, 4), 0);
  EXPECT_DOUBLE_EQ(pass_rate(4, 1, 1), 0.25);
  EXPECT_DOUBLE_EQ(pass_rate(4, 1, 2), 0.5);        // 1 - C(3, 2) / C(4, 2) = 1 - 3 / 6
  EXPECT_DOUBLE_EQ(pass_rate(8, 3, 4), 13.0 / 14);  // 1 - C(5, 4) / C(8, 4) = 1 - 5 / 70
  EXPECT_EQ(pass_rate(4, 3, 2), 1);
}

TEST(Advantage, OverlongAnswersCost) {
  EXPECT_EQ(overlong_penalty(80, 100, 20, 1), 0);
  EXPECT_EQ(overlong_penalty(90, 100, 20, 1), -0.5);
  EXPECT_EQ(overlong_penalty(100, 100, 20, 0.4), -0.4);
  EXPECT_EQ(overlong_penalty(10, 100, 20, 1), 0);
}

TEST(PolicyLoss, ClipWorkedByHand) {
  const PolicyLossOptions o = {.eps_clip = 0.2, .eps_clip_high = 0.28};
  // At the ratio 1 the loss is -A and its slope too.
  Outcome out = of_one(o, -1, -1, 2);
  EXPECT_DOUBLE_EQ(out.sums.loss, -2);
  EXPECT_FLOAT_EQ(out.slopes[0], -2);
  EXPECT_EQ(out.sums.clipped, 0);
  // Ratio 2, A 1: max(-2, -1.28).
  out = of_one(o, kLn2 - 1, -1, 1);
  EXPECT_NEAR(out.sums.loss, -1.28, 1e-12);
  EXPECT_EQ(out.slopes[0], 0);
  EXPECT_EQ(out.sums.clipped, 1);
  // Ratio 2, A -1: max(2, 1.28): nothing is clipped.
  out = of_one(o, kLn2 - 1, -1, -1);
  EXPECT_NEAR(out.sums.loss, 2, 1e-6);
  EXPECT_NEAR(out.slopes[0], 2, 1e-6);
  // Ratio 1/2, A 1: max(-0.5, -0.8); A -1: max(0.5, 0.8).
  EXPECT_NEAR(of_one(o, -kLn2 - 1, -1, 1).sums.loss, -0.5, 1e-6);
  out = of_one(o, -kLn2 - 1, -1, -1);
  EXPECT_NEAR(out.sums.loss, 0.8, 1e-12);
  EXPECT_EQ(out.slopes[0], 0);
}

TEST(PolicyLoss, DualClipWorkedByHand) {
  const PolicyLossOptions o = {.eps_clip_c = 3};
  Outcome out = of_one(o, std::log(5.0f) - 4, -4, -1);  // min(3, 5)
  EXPECT_DOUBLE_EQ(out.sums.loss, 3);
  EXPECT_EQ(out.slopes[0], 0);
  EXPECT_EQ(out.sums.clipped, 1);
  EXPECT_NEAR(of_one(o, kLn2 - 4, -4, -1).sums.loss, 2, 1e-6);
}

TEST(PolicyLoss, FarRatiosAreLimited) {
  const Outcome out = of_one({}, -1, -40, -1);
  EXPECT_NEAR(out.sums.loss, std::exp(20.0), 1);
  EXPECT_EQ(out.slopes[0], 0);
  EXPECT_DOUBLE_EQ(of_one({}, -1, NAN, 1).sums.policy, -1);
}

TEST(PolicyLoss, GspoTakesTheAnswersMean) {
  // Differences ln 2 and 0: mean ln(2) / 2, ratio sqrt(2) for both, above 1.2: clipped.
  const float news[] = {kLn2 - 1, -1}, olds[] = {-1, -1};
  PolicyTokens tokens = {.new_log_probs = news, .old_log_probs = olds, .advantage = 1};
  tokens.answer_difference = mean_difference(news, olds);
  EXPECT_NEAR(tokens.answer_difference, std::log(2.0) / 2, 1e-7);
  Outcome out = of({.kind = PolicyLossKind::kGspo}, tokens);
  EXPECT_NEAR(out.sums.loss, -2.4, 1e-12);
  EXPECT_EQ(out.slopes, std::vector<float>(2, 0.0f));
  tokens.advantage = -1;  // not clipped: each token moves both terms
  out = of({.kind = PolicyLossKind::kGspo}, tokens);
  EXPECT_NEAR(out.sums.loss, 2 * std::sqrt(2.0), 1e-6);
  EXPECT_NEAR(out.slopes[0], std::sqrt(2.0), 1e-6);
  EXPECT_NEAR(out.slopes[1], std::sqrt(2.0), 1e-6);
}

TEST(PolicyLoss, CispoKeepsTheGradientOfClippedTokens) {
  const PolicyLossOptions o = {.kind = PolicyLossKind::kCispo, .eps_clip_high = 0.5};
  const Outcome out = of_one(o, kLn2 - 3, -3, 2);  // weight min(2, 1.5)
  EXPECT_NEAR(out.sums.loss, -1.5 * 2 * (kLn2 - 3), 1e-6);
  EXPECT_FLOAT_EQ(out.slopes[0], -3);
  EXPECT_EQ(out.sums.clipped, 1);
  EXPECT_FLOAT_EQ(of_one(o, -3 - kLn2, -3, 2).slopes[0], -1.6f);  // max(0.5, 0.8)
}

TEST(PolicyLoss, KlWorkedByHand) {
  const double d = 0.5;
  EXPECT_DOUBLE_EQ(kl_term(KlKind::kK1, -1, -1.5).value, d);
  EXPECT_DOUBLE_EQ(kl_term(KlKind::kK2, -1, -1.5).value, 0.125);
  EXPECT_DOUBLE_EQ(kl_term(KlKind::kK3, -1, -1.5).value, std::exp(-d) - 1 + d);
  EXPECT_DOUBLE_EQ(kl_term(KlKind::kLowVar, -1, -1.5).value, std::exp(-d) - 1 + d);
  EXPECT_EQ(kl_term(KlKind::kLowVar, -31, -1).value, 10);
  EXPECT_EQ(kl_term(KlKind::kLowVar, -31, -1).slope, 0);
  EXPECT_EQ(kl_term(KlKind::kLowVar, -1, -31).slope, 0);
  for (const KlKind kind : {KlKind::kK1, KlKind::kK2, KlKind::kK3, KlKind::kLowVar}) {
    EXPECT_EQ(kl_term(kind, -2, -2).value, 0);
    const double h = 1e-6;
    const double slope =
        (kl_term(kind, -1 + h, -1.4).value - kl_term(kind, -1 - h, -1.4).value) / (2 * h);
    EXPECT_NEAR(kl_term(kind, -1, -1.4).slope, slope, 1e-8);
  }
}

TEST(PolicyLoss, MismatchWorkedByHand) {
  using Kind = MismatchOptions::Kind;
  const double ln3 = std::log(3.0);
  EXPECT_NEAR(mismatch_ratio(-1, -1 - ln3), 3, 1e-12);
  EXPECT_NEAR(mismatch_ratio(-1 - ln3, -1), 1.0 / 3, 1e-12);
  EXPECT_EQ(mismatch_weight({}, 7), 1);
  EXPECT_EQ(mismatch_weight({.kind = Kind::kTis}, 3), 2);
  EXPECT_EQ(mismatch_weight({.kind = Kind::kTis}, 0.25), 0.25);
  EXPECT_EQ(mismatch_weight({.kind = Kind::kTis, .low = 0.5}, 0.25), 0.5);
  EXPECT_EQ(mismatch_weight({.kind = Kind::kIcePop, .low = 0.5}, 3), 0);
  EXPECT_EQ(mismatch_weight({.kind = Kind::kIcePop, .low = 0.5}, 0.25), 0);
  EXPECT_EQ(mismatch_weight({.kind = Kind::kIcePop, .low = 0.5}, 1.5), 1.5);
}

// Slopes of whole answers, with weights and a KL, against differences of the loss.
TEST(PolicyLoss, SlopesAreFiniteDifferences) {
  const std::vector<float> olds = {-0.5f, -1, -2, -0.1f, -3}, refs = {-0.6f, -1.1f, -2, -0.3f, -2};
  const std::vector<float> news = {-0.45f, -1.05f, -1.95f, -0.12f, -3.3f};
  const std::vector<double> ratios = {1, 0.5, 2, 7, 1.5};  // the fourth counts nothing
  for (const PolicyLossKind kind : {PolicyLossKind::kGrpo, PolicyLossKind::kGspo}) {
    for (const double advantage : {1.5, -0.7}) {
      const PolicyLossOptions o = {.kind = kind,
                                   .kl_coef = 0.1,
                                   .kl = KlKind::kK3,
                                   .mismatch = {.kind = MismatchOptions::Kind::kIcePop}};
      const auto loss = [&](const std::vector<float>& at) {
        return of(o,
                  {.new_log_probs = at,
                   .old_log_probs = olds,
                   .ref_log_probs = refs,
                   .mismatches = ratios,
                   .advantage = advantage,
                   .answer_difference = mean_difference(at, olds),
                   .answer_weight = 1},
                  0.25);
      };
      const std::vector<float> slopes = loss(news).slopes;
      for (std::size_t t = 0; t < news.size(); ++t) {
        std::vector<float> above = news, below = news;
        above[t] += 0x1p-9f, below[t] -= 0x1p-9f;
        const double slope =
            (loss(above).sums.loss - loss(below).sums.loss) / (double{above[t]} - double{below[t]});
        EXPECT_NEAR(slopes[t], slope, 1e-5) << t;
      }
    }
  }
}

TEST(PolicyLoss, ScalesAndMetrics) {
  EXPECT_DOUBLE_EQ(loss_scale(false, 10, 4, 100), 1.0 / 40);
  EXPECT_DOUBLE_EQ(loss_scale(true, 10, 4, 100), 1.0 / 100);
  const std::vector<float> same(4, -1.0f);
  const std::vector<double> ratios = {1, 1, 5, 9};
  const PolicyLossOptions o = {.mismatch = {.kind = MismatchOptions::Kind::kIcePop}};
  PolicyTokens tokens = {
      .new_log_probs = same, .old_log_probs = same, .mismatches = ratios, .advantage = 1};
  const Outcome out = of(o, tokens, 0.25);
  tokens.old_log_probs = {};
  const Outcome alone = of(o, tokens, 0.25);
  EXPECT_EQ(alone.sums.loss, out.sums.loss) << "without old ones, ratios are 1";
  EXPECT_EQ(alone.slopes, out.slopes);
  EXPECT_DOUBLE_EQ(out.sums.loss, -0.5);
  EXPECT_DOUBLE_EQ(out.sums.ess_ratio(), 0.5);
  EXPECT_EQ(out.sums.mismatch, 16) << "as they are, not as they count";
  EXPECT_EQ(out.sums.mismatch_clipped, 2);
}

}  // namespace
}  // namespace glint
