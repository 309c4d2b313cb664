#include "runtime/sample_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "backends/cpu/cpu_ops.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "engine/request.h"
#include "ops/logit_rows.h"
#include "ops/sampling_math.h"
#include "tensor/transfer.h"

namespace glint {
namespace {

// Tokens of rows that are asked for one by one.
class Sampler {
 public:
  // With penalties, `counts` are those of the answer so far.
  std::optional<TokenId> sample(const std::vector<float>& logits, const SamplingParams& params,
                                SamplingContext context,
                                const std::vector<std::int32_t>& counts = {}) {
    SampleRows rows(static_cast<std::int64_t>(logits.size()));
    if (!counts.empty()) context.seat = 0;
    rows.add(params, context);
    const TokenId token = draw(rows, logits, 1, counts)[0];
    return token < 0 ? std::nullopt : std::optional(token);
  }

  // `rows` of the same logits.
  std::vector<TokenId> draw(const SampleRows& rows, const std::vector<float>& logits, int count,
                            const std::vector<std::int32_t>& counts = {}) {
    std::vector<float> all;
    for (int i = 0; i < count; ++i) all.insert(all.end(), logits.begin(), logits.end());
    const Arena::Scope scope(arena_);
    const Tensor read = upload(all, {count, static_cast<std::int64_t>(logits.size())}, arena_);
    const Tensor table = upload(counts, {1, static_cast<std::int64_t>(counts.size())}, arena_);
    return download<TokenId>(rows.draw(ops_, read, {.counts = table}, arena_).tokens,
                             ops_.device());
  }

  // The ids that come among many draws of nearly even logits.
  std::set<TokenId> possible(SamplingParams params, SamplingContext context, std::size_t size) {
    std::set<TokenId> ids;
    params.temperature = 1e6;
    for (std::int64_t position = 0; position < 200; ++position) {
      context.position = position;
      if (const auto id = sample(std::vector<float>(size, 1.0f), params, context)) ids.insert(*id);
    }
    return ids;
  }

 private:
  ThreadPool pool_{1};
  CpuOps ops_{best_cpu_isa().value(), pool_};
  Arena arena_{ops_.device()};
};

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
  using Ids = std::set<TokenId>;
  EXPECT_EQ(sampler.possible({}, {}, 6), (Ids{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(sampler.possible({.allowed_ids = {2, 5, 99}}, {}, 6), (Ids{2, 5}));
  const std::vector<std::uint32_t> mask = {0b101001};
  EXPECT_EQ(sampler.possible({}, {.mask = mask}, 6), (Ids{0, 3, 5}));
  EXPECT_EQ(
      sampler.possible({.logit_bias = {{1, 100.0f}}, .allowed_ids = {0, 1}}, {.mask = mask}, 6),
      Ids{0});
  const std::vector<TokenId> stops = {1, 3, 77};
  EXPECT_EQ(sampler.possible({}, {.forbidden = stops}, 6), (Ids{0, 2, 4, 5}));
  const std::vector<TokenId> answer = {5, 2};
  const SamplingParams words = {.bad_words = {{0}, {2, 1}, {5, 2, 3}, {1, 5}, {9, 5, 2, 2}}};
  EXPECT_EQ(sampler.possible(words, {.answer = answer}, 6), (Ids{2, 4, 5}));
  EXPECT_EQ(sampler.possible(words, {}, 6), (Ids{1, 2, 3, 4, 5}));
  EXPECT_EQ(sampler.possible({.logit_bias = {{0, 9.0f}, {1, 9.0f}, {3, 9.0f}, {4, 9.0f}},
                              .bad_words = {{4}, {3}, {2}}},
                             {.forbidden = stops}, 6),
            (Ids{0, 5}));
  // The mask has more tokens than the row.
  const std::vector<std::uint32_t> long_mask = {~0u, 0};
  EXPECT_EQ(sampler.possible({}, {.mask = long_mask}, 6).size(), 6u);
}

// Which of two tokens greedy sampling prefers tells their logits after all edits.
TEST(Sampler, penalties_and_bias_come_in_the_order_of_vllm) {
  Sampler sampler;
  const std::vector<float> logits = {2.0f, -2.0f, 1.0f, 4.0f};
  const std::vector<std::int32_t> counts = {
      kCountOfPrompt, 2 * kCountOfSaid, kCountOfPrompt + kCountOfSaid, 0, 0, 4 * kCountOfSaid};
  // Bias, then (x / 2 or x * 2) - 0.25 * count - 0.5 if the answer holds it; 0 is of the prompt.
  const std::vector<float> expected = {2.0f, -5.0f, -0.25f, 3.0f};
  for (TokenId id = 0; id < 4; ++id) {
    for (const float off : {-0.001f, 0.001f}) {
      // A fifth token just beside what is expected of this one, and the others forbidden.
      std::vector<float> row = logits;
      row.push_back(expected[static_cast<std::size_t>(id)] + off);
      std::vector<TokenId> others;
      for (TokenId other = 0; other < 4; ++other) {
        if (other != id) others.push_back(other);
      }
      const SamplingParams params = {.temperature = 0,
                                     .repetition_penalty = 2,
                                     .presence_penalty = 0.5,
                                     .frequency_penalty = 0.25,
                                     .logit_bias = {{0, 2.0f}, {3, -1.0f}}};
      EXPECT_EQ(sampler.sample(row, params, {.forbidden = others}, counts), off > 0 ? 4 : id);
    }
  }
}

// Each row of a sequence with drafts counts those before it, and the table what was right of them.
TEST(Sampler, drafts_count_for_penalties_as_if_they_were_said) {
  ThreadPool pool(1);
  CpuOps ops(best_cpu_isa().value(), pool);
  Arena arena(ops.device());
  const SamplingParams params = {.temperature = 0, .frequency_penalty = 1};
  SampleRows rows(3);
  for (const TokenId draft : {-1, 1, 0, 2}) rows.add(params, {.seat = 1, .draft = draft});
  const std::vector<float> logits = {2.0f, 1.9f, 0.0f};
  std::vector<float> all;
  for (int r = 0; r < rows.size(); ++r) all.insert(all.end(), logits.begin(), logits.end());
  const std::vector<std::int32_t> said = {7, 7, 7, kCountOfSaid, 0, 0};
  const Tensor counts = upload(said, {2, 3}, arena);
  const Tensor tokens =
      rows.draw(ops, upload(all, {rows.size(), 3}, arena), {.counts = counts}, arena).tokens;
  // 2 - 1 and 1.9; 2 - 1 and 1.9 - 1; 2 - 2 and 1.9 - 1; the same, and a third that was said.
  EXPECT_EQ(download<TokenId>(tokens, ops.device()), (std::vector<TokenId>{1, 0, 1, 1}));
  // The last draft was wrong, and what was drawn after it is not said.
  EXPECT_EQ(download<std::int32_t>(counts, ops.device()),
            (std::vector<std::int32_t>{7, 7, 7, 2 * kCountOfSaid, 2 * kCountOfSaid, 0}));
}

TEST(Sampler, rows_of_one_call_do_not_depend_on_each_other) {
  Sampler sampler;
  const std::vector<float> logits = random_logits(300, 2, 3);
  const std::vector<TokenId> forbidden = {argmax(logits)};
  SampleRows rows(300);
  std::vector<TokenId> alone;
  for (int i = 0; i < 20; ++i) {
    const SamplingParams params = {.temperature = i % 4 ? 1.0 : 0.0,
                                   .top_p = i % 3 ? 0.9 : 1.0,
                                   .top_k = i % 5 ? 0 : 7,
                                   .seed = static_cast<std::uint64_t>(i)};
    SamplingContext context = {.position = i};
    if (i % 2) context.forbidden = forbidden;
    rows.add(params, context);
    alone.push_back(*sampler.sample(logits, params, context));
  }
  EXPECT_EQ(sampler.draw(rows, logits, 20), alone);
}

TEST(Sampler, rows_take_no_more_memory_than_is_planned_for_them) {
  constexpr int kRows = 3, kIds = 6000;
  SamplingParams params = {.presence_penalty = 1};
  std::vector<TokenId> forbidden;
  TokenId id = 0;
  while (params.logit_bias.size() < kMaxLogitBias) params.logit_bias.own().emplace_back(id++, 1.0f);
  while (params.bad_words.size() < kMaxBadWords) params.bad_words.own().push_back({id++});
  while (forbidden.size() < kMaxStopIds) forbidden.push_back(id++);
  const std::vector<std::uint32_t> mask(kIds / 32 + 1, ~0u);
  SampleRows rows(kIds);
  for (int i = 0; i < kRows; ++i)
    rows.add(params, {.length_seat = 0, .seat = 0, .forbidden = forbidden, .mask = mask});
  ThreadPool pool(1);
  CpuOps ops(best_cpu_isa().value(), pool);
  Arena inputs(ops.device()), arena(ops.device());
  const Tensor logits = upload(std::vector<float>(kRows * kIds), {kRows, kIds}, inputs);
  const Tensor counts = upload(std::vector<std::int32_t>(kIds), {1, kIds}, inputs);
  const Tensor lengths = upload(std::vector<std::int32_t>(1), {1}, inputs);
  rows.draw(ops, logits, {.lengths = lengths, .counts = counts, .guesses = lengths}, arena);
  const std::int64_t edits = 8 * id * kRows, work = 4 * kRows * kIds;
  EXPECT_GT(static_cast<std::int64_t>(arena.high_water()), work + edits);
  EXPECT_LE(static_cast<std::int64_t>(arena.high_water()),
            work + SampleRows::upload_bytes(kIds, kRows));
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

TEST(Logits, gumbel_numbers_are_minus_ln_of_minus_ln) {
  double worst = 0, sum = 0;
  constexpr int kCount = 1 << 20;
  for (int i = 0; i < kCount; ++i) {
    // Evenly, and near both ends.
    const std::uint32_t n = static_cast<std::uint32_t>(i) * 4096u + 2048u;
    for (const std::uint32_t bits :
         {n, static_cast<std::uint32_t>(i), ~static_cast<std::uint32_t>(i)}) {
      const double u = 1 - (bits + 0.5) * 0x1p-32;
      const double exact = -std::log(bits < 1u << 30 ? -std::log1p(u - 1) : -std::log(u));
      worst = std::max(worst, std::abs(gumbel_of(bits) - exact));
    }
    sum += gumbel_of(n);
  }
  EXPECT_LT(worst, 4e-6);
  EXPECT_NEAR(sum / kCount, 0.5772156649, 1e-4);
}

TEST(Logits, a_logprob_is_that_of_the_plain_softmax) {
  double sum = 0;
  for (TokenId id = 0; id < 6; ++id) sum += std::exp(double{logprob(kLogits, id)});
  EXPECT_NEAR(sum, 1, 1e-6);
}

}  // namespace
}  // namespace glint
