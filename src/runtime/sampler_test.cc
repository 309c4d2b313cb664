#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace glint {
namespace {

const std::vector<float> kLogits = {1.0f, 3.0f, 2.0f, 3.0f, -INFINITY, 0.0f};

std::vector<TokenId> ids(const std::vector<Candidate>& list) {
  std::vector<TokenId> out;
  for (const Candidate& c : list) out.push_back(c.id);
  return out;
}

TEST(Sampler, filters_keep_the_likely_ones_in_order) {
  EXPECT_EQ(ids(candidates(kLogits, {})), (std::vector<TokenId>{1, 3, 2, 0, 5}));
  EXPECT_EQ(ids(candidates(kLogits, {.top_k = 3})), (std::vector<TokenId>{1, 3, 2}));
  EXPECT_EQ(ids(candidates(kLogits, {.temperature = 0})), (std::vector<TokenId>{1}));
  // p = 0.40, 0.40, 0.15, 0.05, 0.02
  EXPECT_EQ(ids(candidates(kLogits, {.top_p = 0.81})), (std::vector<TokenId>{1, 3, 2}));
  EXPECT_EQ(ids(candidates(kLogits, {.top_p = 1e-9})), (std::vector<TokenId>{1}));
  EXPECT_EQ(ids(candidates(kLogits, {.min_p = 0.3})), (std::vector<TokenId>{1, 3, 2}));
  EXPECT_EQ(ids(candidates(kLogits, {.temperature = 0.5, .min_p = 0.3})),
            (std::vector<TokenId>{1, 3}));
  double sum = 0;
  for (const Candidate& c : candidates(kLogits, {.top_p = 0.9, .top_k = 4})) sum += c.probability;
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(Sampler, a_draw_depends_on_seed_and_position_only) {
  const SamplingParams params = {.seed = 7};
  for (int position = 0; position < 50; ++position) {
    EXPECT_EQ(sample(kLogits, params, position), sample(kLogits, params, position));
  }
  int different = 0;
  for (int position = 0; position < 200; ++position) {
    different += sample(kLogits, {.seed = 7}, position) != sample(kLogits, {.seed = 8}, position);
  }
  EXPECT_GT(different, 50);
}

// Chi-squared of `counts` against the distribution: 4 degrees of freedom, so 18.5 has probability
// 0.001.
double chi_squared(const std::map<TokenId, int>& counts, const SamplingParams& params, int n) {
  double sum = 0;
  for (const Candidate& c : candidates(kLogits, params)) {
    const double expected = n * c.probability;
    const auto at = counts.find(c.id);
    const double seen = at == counts.end() ? 0 : at->second;
    sum += (seen - expected) * (seen - expected) / expected;
  }
  return sum;
}

TEST(Sampler, samples_have_the_distribution) {
  const SamplingParams params = {.seed = 3};
  std::map<TokenId, int> counts;
  for (int i = 0; i < 40000; ++i) ++counts[sample(kLogits, params, i)];
  EXPECT_LT(chi_squared(counts, params, 40000), 18.5);
}

TEST(Sampler, verified_drafts_leave_the_distribution_alone) {
  const SamplingParams params = {.seed = 11};
  for (const TokenId draft : {1, 2, 4, 5}) {
    std::map<TokenId, int> counts;
    int accepted = 0;
    for (int i = 0; i < 40000; ++i) {
      const Verdict verdict = verify_draft(kLogits, params, i, draft);
      EXPECT_EQ(verdict.accepted, verdict.token == draft);
      accepted += verdict.accepted;
      ++counts[verdict.token];
    }
    EXPECT_LT(chi_squared(counts, params, 40000), 18.5) << draft;
    EXPECT_EQ(accepted == 0, draft == 4);
  }
}

TEST(Sampler, greedy_drafts_are_accepted_when_they_are_the_argmax) {
  EXPECT_TRUE(verify_draft(kLogits, {.temperature = 0}, 0, 1).accepted);
  const Verdict wrong = verify_draft(kLogits, {.temperature = 0}, 0, 3);
  EXPECT_FALSE(wrong.accepted);
  EXPECT_EQ(wrong.token, 1);
}

TEST(Sampler, logprobs_are_those_of_the_plain_softmax) {
  double sum = 0;
  for (TokenId id = 0; id < 6; ++id) sum += std::exp(logprob(kLogits, id));
  EXPECT_NEAR(sum, 1, 1e-6);
}

TEST(Sampler, repetition_penalty_counts_each_token_once) {
  std::vector<float> scratch;
  const std::vector<float> logits = {2.0f, -2.0f, 1.0f};
  const std::vector<TokenId> sequence = {0, 1, 1, 0, 99};
  const auto out = penalized(logits, {.repetition_penalty = 2}, sequence, scratch);
  EXPECT_EQ(std::vector<float>(out.begin(), out.end()), (std::vector<float>{1.0f, -4.0f, 1.0f}));
  EXPECT_EQ(penalized(logits, {}, sequence, scratch).data(), logits.data());
}

TEST(Sampler, impossible_parameters_are_refused_by_name) {
  EXPECT_NE(validate({.temperature = -1}).error().message.find("temperature"), std::string::npos);
  EXPECT_NE(validate({.top_p = 0}).error().message.find("top-p"), std::string::npos);
  EXPECT_NE(validate({.top_k = -3}).error().message.find("top-k"), std::string::npos);
  EXPECT_NE(validate({.repetition_penalty = 0}).error().message.find("repetition-penalty"),
            std::string::npos);
  EXPECT_NE(validate({.min_p = NAN}).error().message.find("min-p"), std::string::npos);
}

}  // namespace
}  // namespace glint
