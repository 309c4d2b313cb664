#include "rl/answer_loss.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace glint {
namespace {

// Two tokens of prompt, then `news.size()` of answer.
GradedAnswer answer_of(const std::vector<float>& olds, double advantage) {
  return {.tokens = {.ids = std::vector<TokenId>(olds.size() + 2, 7)},
          .num_prompt = 2,
          .old_log_probs = olds,
          .advantage = advantage};
}

// All predicted tokens of an answer: the prompt's second, and the answer's.
struct Values {
  std::vector<float> log_probs, entropies;
};

struct Slopes {
  std::vector<float> log_probs, entropies;
};

// Looks at a sequence in pieces of `piece` tokens.
Slopes weigh(AnswerLoss& loss, std::size_t sequence, const Values& values, std::size_t piece) {
  const std::size_t count = values.log_probs.size();
  Slopes slopes = {std::vector<float>(count), std::vector<float>(count)};
  for (std::size_t at = 0; at < count; at += piece) {
    const std::size_t n = std::min(piece, count - at);
    loss.weigh(
        sequence, static_cast<std::int64_t>(at) + 1, std::span(values.log_probs).subspan(at, n),
        std::span(values.entropies).subspan(at, n), std::span(slopes.log_probs).subspan(at, n),
        std::span(slopes.entropies).subspan(at, n));
  }
  return slopes;
}

class AnswerLossOf : public testing::TestWithParam<PolicyLossKind> {
 protected:
  const std::vector<GradedAnswer> answers = {answer_of({-0.5f, -1, -2}, 1.5),
                                             answer_of({-0.25f, -3, -1, -0.125f, -2}, -0.5)};
  const std::vector<const GradedAnswer*> all = {&answers[0], &answers[1]};
  const std::vector<Values> values = {
      {{-9, -0.53f, -1.06f, -1.94f}, {2, 0.5f, 0.75f, 1}},
      {{-9, -0.28f, -3.05f, -0.96f, -0.13f, -2.06f}, {2, 1, 0.25f, 0.5f, 0.125f, 1.5f}}};

  AnswerLoss make(const std::vector<Values>& at, bool per_token) const {
    std::vector<double> differences;
    for (std::size_t i = 0; i < all.size(); ++i) {
      differences.push_back(
          mean_difference(std::span(at[i].log_probs).subspan(1), answers[i].old_log_probs));
    }
    return {{.policy = {.kind = GetParam()}, .entropy_coef = 0.25, .per_token = per_token},
            all,
            /*batch_answers=*/4,
            /*batch_tokens=*/20,
            differences};
  }
  double loss_at(const std::vector<Values>& at, bool per_token) const {
    AnswerLoss loss = make(at, per_token);
    for (std::size_t i = 0; i < all.size(); ++i) weigh(loss, i, at[i], 100);
    return loss.sums().loss;
  }
};

TEST_P(AnswerLossOf, SlopesAreFiniteDifferencesAndPromptsHaveNone) {
  for (const bool per_token : {false, true}) {
    AnswerLoss loss = make(values, per_token);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Slopes slopes = weigh(loss, i, values[i], 100);
      EXPECT_EQ(slopes.log_probs[0], 0);
      EXPECT_EQ(slopes.entropies[0], 0);
      for (std::size_t t = 1; t < slopes.log_probs.size(); ++t) {
        const auto difference = [&](std::vector<float> Values::*member) {
          std::vector<Values> above = values, below = values;
          (above[i].*member)[t] += 0x1p-7f, (below[i].*member)[t] -= 0x1p-7f;
          const double step = double{(above[i].*member)[t]} - (below[i].*member)[t];
          return (loss_at(above, per_token) - loss_at(below, per_token)) / step;
        };
        EXPECT_NEAR(slopes.log_probs[t], difference(&Values::log_probs), 1e-4) << i << " " << t;
        EXPECT_NEAR(slopes.entropies[t], difference(&Values::entropies), 1e-6) << i << " " << t;
      }
    }
  }
}

TEST_P(AnswerLossOf, PiecesAreTheWhole) {
  AnswerLoss whole = make(values, false);
  for (const std::size_t piece : {1, 2, 3}) {
    AnswerLoss pieces = make(values, false);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Slopes expected = weigh(whole, i, values[i], 100);
      const Slopes slopes = weigh(pieces, i, values[i], piece);
      EXPECT_EQ(slopes.log_probs, expected.log_probs);
      EXPECT_EQ(slopes.entropies, expected.entropies);
    }
    EXPECT_EQ(pieces.sums().tokens, 8);
    EXPECT_DOUBLE_EQ(pieces.entropy(), 2.25 + 3.375);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, AnswerLossOf,
                         testing::Values(PolicyLossKind::kGrpo, PolicyLossKind::kGspo));

// By hand: 4 answers in the batch; the loss of this one is -A a token at the ratio 1.
TEST(AnswerLoss, WorkedByHand) {
  const GradedAnswer answer = answer_of({-1, -2}, 3);
  const GradedAnswer* const one[] = {&answer};
  const Values values = {{-5, -1, -2}, {0.5f, 0.5f, 0.5f}};
  AnswerLoss means({.policy = {}}, one, 4, 20);
  EXPECT_EQ(weigh(means, 0, values, 100).log_probs, (std::vector<float>{0, -3 / 8.f, -3 / 8.f}));
  EXPECT_DOUBLE_EQ(means.sums().loss, -3.0 / 4);
  AnswerLoss tokens({.policy = {}, .per_token = true}, one, 4, 20);
  EXPECT_EQ(weigh(tokens, 0, values, 100).log_probs, (std::vector<float>{0, -0.15f, -0.15f}));
}

}  // namespace
}  // namespace glint
