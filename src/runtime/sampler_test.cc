#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/random.h"

namespace glint {
namespace {

const std::vector<float> kLogits = {1.0f, 3.0f, 2.0f, 3.0f, -INFINITY, 0.0f};

// The rules of engine/sampling_params.h in f64, by full sorting: probabilities of every token.
std::vector<double> oracle(const std::vector<float>& logits, const SamplingParams& params) {
  const std::size_t n = logits.size();
  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  std::vector<double> p(n);
  const auto normalize = [&] {
    double sum = 0;
    for (const double x : p) sum += x;
    for (double& x : p) x /= sum;
  };
  for (std::size_t i = 0; i < n; ++i) {
    p[i] = std::exp((double{logits[i]} - double{logits[order[0]]}) / params.temperature);
  }
  for (double& x : p) x = x < params.min_p ? 0 : x;
  for (std::size_t i = 0; i < n; ++i) {
    if (params.top_k > 0 && i >= static_cast<std::size_t>(params.top_k)) p[order[i]] = 0;
  }
  normalize();
  double reached = 0;
  for (const std::size_t id : order) {
    if (reached >= params.top_p) p[id] = 0;
    reached += p[id];
  }
  normalize();
  return p;
}

std::vector<float> random_logits(std::size_t size, double spread, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> logits(size);
  for (float& x : logits) x = static_cast<float>(random.normal() * spread);
  return logits;
}

std::map<TokenId, int> draw_many(const std::vector<float>& logits, const SamplingParams& params,
                                 int draws) {
  Sampler sampler;
  std::map<TokenId, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[*sampler.sample(logits, params, {.position = i})];
  return counts;
}

// Pearson's statistic in standard deviations from its mean; tokens expected less than 5 times
// together count as one. A token of probability 0 must not come.
double surprise(const std::map<TokenId, int>& counts, const std::vector<double>& p, int draws) {
  double sum = 0, rest_expected = 0, rest_seen = 0;
  int cells = 0;
  for (std::size_t id = 0; id < p.size(); ++id) {
    const auto at = counts.find(static_cast<TokenId>(id));
    const double seen = at == counts.end() ? 0 : at->second;
    EXPECT_TRUE(p[id] > 0 || seen == 0) << "token " << id << " came " << seen << " times";
    const double expected = p[id] * draws;
    if (expected < 5) {
      rest_expected += expected;
      rest_seen += seen;
      continue;
    }
    sum += (seen - expected) * (seen - expected) / expected;
    ++cells;
  }
  if (rest_expected >= 1) {
    sum += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
    ++cells;
  }
  const double freedom = std::max(1, cells - 1);
  return (sum - freedom) / std::sqrt(2 * freedom);
}

TEST(Sampler, samples_have_the_distribution_that_the_parameters_describe) {
  const SamplingParams all[] = {
      {.seed = 1},
      {.temperature = 0.7, .seed = 2},
      {.temperature = 3, .seed = 3},
      {.top_k = 3, .seed = 4},
      {.top_k = 50, .seed = 5},
      {.top_p = 0.9, .seed = 6},
      {.top_p = 0.3, .top_k = 40, .seed = 7},
      {.min_p = 0.2, .seed = 8},
      {.temperature = 1.3, .top_p = 0.8, .top_k = 100, .min_p = 0.05, .seed = 9},
      {.temperature = 0.5, .top_p = 0.99, .min_p = 0.01, .seed = 10},
      {.temperature = 100, .top_p = 0.5, .seed = 11},
  };
  constexpr int kDraws = 10000;
  for (const std::size_t size : {6, 64, 1100}) {
    const std::vector<float> logits = size == 6 ? kLogits : random_logits(size, 2.5, size);
    for (const SamplingParams& params : all) {
      EXPECT_LT(surprise(draw_many(logits, params, kDraws), oracle(logits, params), kDraws), 5)
          << "seed " << params.seed << ", " << size << " tokens";
    }
  }
}

TEST(Sampler, greedy_is_the_first_of_the_most_likely) {
  Sampler sampler;
  EXPECT_EQ(sampler.sample(kLogits, {.temperature = 0}, {}), 1);
  for (const std::size_t size : {1, 15, 16, 17, 1000}) {
    std::vector<float> logits(size, -2.0f);
    EXPECT_EQ(argmax(logits), 0);
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      std::vector<float> peak = logits;
      peak[at] = -1;
      EXPECT_EQ(argmax(peak), static_cast<TokenId>(at));
    }
  }
}

TEST(Sampler, a_draw_depends_on_seed_and_position_only) {
  Sampler used, fresh;
  int different = 0;
  for (int position = 0; position < 200; ++position) {
    const SamplingContext at = {.position = position};
    used.sample(random_logits(100, 1, position), {.top_p = 0.5}, at);
    EXPECT_EQ(used.sample(kLogits, {.seed = 7}, at), fresh.sample(kLogits, {.seed = 7}, at));
    different += used.sample(kLogits, {.seed = 7}, at) != used.sample(kLogits, {.seed = 8}, at);
  }
  EXPECT_GT(different, 50);
}

TEST(Sampler, extreme_parameters_leave_a_token) {
  const std::vector<float> logits = random_logits(5000, 3, 1);
  const TokenId best = argmax(logits);
  Sampler sampler;
  for (const SamplingParams& params :
       {SamplingParams{.temperature = 1e-300}, SamplingParams{.temperature = 1e-6},
        SamplingParams{.top_p = 1e-12}, SamplingParams{.top_k = 1}, SamplingParams{.min_p = 1}}) {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(sampler.sample(logits, params, {.position = i}), best);
  }
  const SamplingParams hot = {.temperature = 1e300, .top_p = 1 - 1e-12, .top_k = 4999};
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(sampler.sample(logits, hot, {.position = i}));
}

TEST(Sampler, what_is_no_number_is_not_sampled_from) {
  Sampler sampler;
  for (const float bad : {NAN, INFINITY}) {
    for (const std::size_t at : {0, 17, 36}) {
      std::vector<float> logits = random_logits(37, 1, 1);
      logits[at] = bad;
      EXPECT_FALSE(sampler.sample(logits, {}, {}));
      EXPECT_FALSE(sampler.sample(logits, {.temperature = 0}, {}));
    }
  }
  EXPECT_FALSE(sampler.sample(std::vector<float>(5, -INFINITY), {}, {}));
}

TEST(Sampler, what_may_not_come_does_not) {
  Sampler sampler;
  const auto adjusted = [&](const SamplingParams& params, const SamplingContext& context) {
    const auto row = sampler.adjust(kLogits, params, context);
    std::set<TokenId> ids;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i] > -INFINITY) ids.insert(static_cast<TokenId>(i));
    }
    return ids;
  };
  using Ids = std::set<TokenId>;
  EXPECT_EQ(adjusted({}, {}), (Ids{0, 1, 2, 3, 5}));
  EXPECT_EQ(adjusted({.allowed_ids = {2, 4, 5, 99}}, {}), (Ids{2, 5}));
  const std::vector<std::uint32_t> mask = {0b101001};
  EXPECT_EQ(adjusted({}, {.mask = mask}), (Ids{0, 3, 5}));
  EXPECT_EQ(adjusted({.logit_bias = {{1, 100.0f}}, .allowed_ids = {0, 1}}, {.mask = mask}), Ids{0});
  const std::vector<TokenId> stops = {1, 3, 77};
  EXPECT_EQ(adjusted({}, {.forbidden = stops}), (Ids{0, 2, 5}));
  const std::vector<TokenId> answer = {5, 2};
  const SamplingParams words = {.bad_words = {{0}, {2, 1}, {5, 2, 3}, {1, 5}, {9, 5, 2, 2}}};
  EXPECT_EQ(adjusted(words, {.answer = answer}), (Ids{2, 5}));
  EXPECT_EQ(adjusted(words, {}), (Ids{1, 2, 3, 5}));
  // The mask has more tokens than the row.
  const std::vector<std::uint32_t> long_mask = {~0u, 0};
  EXPECT_EQ(adjusted({}, {.mask = long_mask}), (Ids{0, 1, 2, 3, 5}));
}

TEST(Sampler, penalties_and_bias_come_in_the_order_of_vllm) {
  Sampler sampler;
  const std::vector<float> logits = {2.0f, -2.0f, 1.0f, 4.0f};
  const TokenCounts counts = {{0, 0}, {1, 2}, {2, 1}, {99, 4}};
  const auto row = sampler.adjust(logits,
                                  {.repetition_penalty = 2,
                                   .presence_penalty = 0.5,
                                   .frequency_penalty = 0.25,
                                   .logit_bias = {{0, 2.0f}, {3, -1.0f}}},
                                  {.counts = &counts});
  // Bias, then (x / 2 or x * 2) - 0.25 * count - 0.5 if the answer holds it; 0 is of the prompt.
  const std::vector<float> expected = {2.0f, -5.0f, -0.25f, 3.0f};
  EXPECT_EQ(std::vector<float>(row.begin(), row.end()), expected);
  EXPECT_EQ(sampler.adjust(logits, {}, {}).data(), logits.data());
}

TEST(Logits, weights_are_the_exponentials) {
  EXPECT_EQ(exp_weight(0), 1);
  EXPECT_EQ(exp_weight(-INFINITY), 0);
  EXPECT_EQ(exp_weight(-88), 0);
  double worst = 0;
  for (float x = 0; x > -87; x -= 0.00137f) {
    worst = std::max(worst, std::abs(double{exp_weight(x)} / std::exp(double{x}) - 1));
  }
  EXPECT_LT(worst, 2e-7);
}

TEST(Logits, the_most_likely_are_those_of_a_full_sort) {
  for (const std::size_t size : {1, 5, 64, 65, 1000, 20000}) {
    std::vector<float> logits = random_logits(size, 1, size);
    for (std::size_t i = 0; i < size; i += 7) logits[i] = logits[0];  // ties
    std::vector<TokenId> order(size);
    for (std::size_t i = 0; i < size; ++i) order[i] = static_cast<TokenId>(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
    for (const std::size_t k : {1, 2, 20, 300, 30000}) {
      std::vector<Candidate> list;
      most_likely(logits, static_cast<int>(k), list);
      std::set<TokenId> got, want(order.begin(), order.begin() + std::min(k, size));
      for (const Candidate& c : list) got.insert(c.id);
      EXPECT_EQ(got, want) << k << " of " << size;
    }
  }
}

TEST(Logits, logprobs_are_those_of_the_plain_softmax) {
  double sum = 0;
  for (TokenId id = 0; id < 6; ++id) sum += std::exp(double{logprob(kLogits, id)});
  EXPECT_NEAR(sum, 1, 1e-6);
  const TokenLogprob two = token_logprob(kLogits, 2, 3, 6);
  EXPECT_EQ(two.logprob, logprob(kLogits, 2));
  EXPECT_EQ(two.rank, 3);
  ASSERT_EQ(two.top.size(), 3u);
  EXPECT_EQ(two.top[0].id, 1);
  EXPECT_EQ(two.top[1].id, 3);
  EXPECT_EQ(two.top[2].id, 2);
  EXPECT_EQ(two.top[1].logprob, logprob(kLogits, 3));
  EXPECT_EQ(token_logprob(kLogits, 3, 0, 6).rank, 1);
  // Padding ids are never among the top, but have their share of the probability.
  const TokenLogprob cut = token_logprob(kLogits, 2, 9, 3);
  ASSERT_EQ(cut.top.size(), 3u);
  EXPECT_EQ(cut.top[2].id, 0);
  EXPECT_EQ(cut.logprob, two.logprob);
}

}  // namespace
}  // namespace glint
