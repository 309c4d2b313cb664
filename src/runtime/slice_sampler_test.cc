#include "runtime/slice_sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "backends/cpu/cpu_ops.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "ops/logit_rows.h"
#include "runtime/seat_table.h"
#include "tensor/transfer.h"

namespace glint {
namespace {

constexpr std::size_t kVocab = 40;

std::vector<float> random_rows(int rows, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> logits(rows * kVocab);
  for (float& x : logits) x = static_cast<float>(random.normal() * 1.5);
  return logits;
}

std::vector<double> softmax(std::span<const float> logits) {
  std::vector<double> p;
  double sum = 0;
  for (const float x : logits) p.push_back(std::exp(double{x})), sum += p.back();
  for (double& x : p) x /= sum;
  return p;
}

// One sampling slice after a prompt, judged against fixed logits.
struct Judged {
  StepResult::Sampled result;
  std::vector<TokenId> tokens;
};
Judged judge(const Request& request, const std::vector<TokenId>& drafts,
             std::span<const float> logits, int max_new = 100) {
  const auto sequence = std::make_shared<SequenceState>(std::make_shared<Request>(request));
  Judged judged;
  const SeqSlice slice = {.sample = true, .max_new = max_new};
  SliceRun run = {.slice = &slice, .sequence = sequence, .result = &judged.result};
  run.drafts = drafts;
  static ThreadPool pool(1);
  static CpuOps ops(best_cpu_isa().value(), pool);
  Arena arena(ops.device());
  static SeatTable seats(ops.device(), {.num_ids = kVocab});
  seats.reserve(1);
  seats.fill(0, sequence->tokens);
  SampleRows rows(kVocab);
  add_rows(run, {}, rows);
  const auto R = static_cast<std::int64_t>(rows.size());
  std::vector<float> read(logits.begin(), logits.begin() + R * std::int64_t{kVocab});
  const Tensor on_device = upload(read, {R, std::int64_t{kVocab}}, arena);
  const Tensor tokens = rows.draw(ops, on_device, seats.tensors(), arena).tokens;
  take_rows(download<std::int32_t>(tokens, ops.device()), {}, run);
  judged.tokens = judged.result.tokens;
  return judged;
}

Request request_with(const SamplingParams& sampling) {
  return {.prompt = {1, 2, 3}, .sampling = sampling, .max_tokens = 50};
}

// Pearson's statistic in standard deviations from its mean.
double surprise(const std::map<TokenId, int>& counts, const std::vector<double>& p, int total) {
  double sum = 0;
  for (std::size_t id = 0; id < p.size(); ++id) {
    const auto at = counts.find(static_cast<TokenId>(id));
    const double seen = at == counts.end() ? 0 : at->second, expected = p[id] * total;
    if (p[id] == 0) {
      EXPECT_EQ(seen, 0);
      continue;
    }
    sum += (seen - expected) * (seen - expected) / expected;
  }
  const double freedom = static_cast<double>(p.size()) - 1;
  return (sum - freedom) / std::sqrt(2 * freedom);
}

// A draft is accepted with exactly the model's probability of it, and whatever the drafts are, each
// token has exactly the distribution of its row.
TEST(SliceSampler, verified_drafts_leave_the_distribution_alone) {
  constexpr int kRuns = 30000;
  const std::vector<float> logits = random_rows(3, 1);
  const auto row = [&](int r) { return std::span(logits).subspan(r * kVocab, kVocab); };
  for (const TokenId draft : {argmax(row(0)), 7, 31}) {
    const std::vector<TokenId> drafts = {draft, argmax(row(1))};
    std::map<TokenId, int> first, second, third;
    std::map<TokenId, int> rejected;
    int accepted = 0, both = 0;
    for (int i = 0; i < kRuns; ++i) {
      const auto tokens =
          judge(request_with({.seed = static_cast<std::uint64_t>(i)}), drafts, logits).tokens;
      ++first[tokens[0]];
      ASSERT_EQ(tokens.size() > 1, tokens[0] == draft);
      if (tokens.size() == 1) {
        ++rejected[tokens[0]];
        continue;
      }
      ++accepted;
      ++second[tokens[1]];
      ASSERT_EQ(tokens.size() == 3, tokens[1] == drafts[1]);
      if (tokens.size() == 3) ++third[tokens[2]], ++both;
    }
    const std::vector<double> p = softmax(row(0));
    const double deviation = std::sqrt(kRuns * p[draft] * (1 - p[draft]));
    EXPECT_NEAR(accepted, kRuns * p[draft], 5 * deviation) << draft;
    EXPECT_LT(surprise(first, p, kRuns), 5) << draft;
    EXPECT_LT(surprise(second, softmax(row(1)), accepted), 5) << draft;
    if (both > 1000) {
      EXPECT_LT(surprise(third, softmax(row(2)), both), 5) << draft;
    }
    std::vector<double> left = p;
    left[draft] = 0;
    for (double& x : left) x /= 1 - p[draft];
    EXPECT_LT(surprise(rejected, left, kRuns - accepted), 5) << draft;
  }
}

TEST(SliceSampler, tokens_are_those_without_drafts) {
  const std::vector<float> logits = random_rows(3, 2);
  for (int i = 0; i < 500; ++i) {
    const Request request =
        request_with({.temperature = i % 5 ? 0.7 : 0.0, .top_p = 0.8, .seed = 77u + i});
    std::vector<TokenId> plain;
    for (int r = 0; r < 3; ++r) {
      // As three steps of one token: the sequence is longer by one each time.
      Request later = request;
      later.prompt.own().insert(later.prompt.own().end(), plain.begin(), plain.end());
      plain.push_back(judge(later, {}, std::span(logits).subspan(r * kVocab)).tokens[0]);
    }
    for (const std::vector<TokenId>& drafts :
         {std::vector<TokenId>{plain[0], plain[1]}, {plain[0], plain[1] ^ 1}, {plain[0] ^ 1, 0}}) {
      const auto tokens = judge(request, drafts, logits).tokens;
      const std::size_t right = drafts[0] != plain[0] ? 0 : drafts[1] != plain[1] ? 1 : 2;
      EXPECT_EQ(tokens, std::vector<TokenId>(plain.begin(), plain.begin() + right + 1));
    }
  }
}

TEST(SliceSampler, accepted_drafts_count_for_penalties_and_bad_words) {
  std::vector<float> logits(3 * kVocab, 0.0f);
  for (int r = 0; r < 3; ++r) logits[r * kVocab + 9] = 3, logits[r * kVocab + 4] = 2;
  const std::vector<TokenId> nines = {9, 9};
  EXPECT_EQ(judge(request_with({.temperature = 0}), nines, logits).tokens,
            (std::vector<TokenId>{9, 9, 9}));
  // 3 > 2 > 3 - 2 * 0.75: the second 9 is a rejected draft.
  EXPECT_EQ(judge(request_with({.temperature = 0, .presence_penalty = 1.5}), nines, logits).tokens,
            (std::vector<TokenId>{9, 4}));
  EXPECT_EQ(judge(request_with({.temperature = 0, .frequency_penalty = 0.6}), nines, logits).tokens,
            (std::vector<TokenId>{9, 9, 4}));
  EXPECT_EQ(judge(request_with({.temperature = 0, .bad_words = {{9, 9}}}), nines, logits).tokens,
            (std::vector<TokenId>{9, 4}));
}

TEST(SliceSampler, an_answer_ends_inside_the_accepted_run) {
  std::vector<float> logits(4 * kVocab, 0.0f);
  for (int r = 0; r < 4; ++r) logits[r * kVocab + 10 + r] = 5;
  const std::vector<TokenId> drafts = {10, 11, 12};
  Request request = request_with({.temperature = 0});
  EXPECT_EQ(judge(request, drafts, logits).tokens, (std::vector<TokenId>{10, 11, 12, 13}));
  EXPECT_EQ(judge(request, drafts, logits, 2).tokens, (std::vector<TokenId>{10, 11}));
  request.stop_ids = {11};
  EXPECT_EQ(judge(request, drafts, logits).tokens, (std::vector<TokenId>{10, 11}));
  request.min_tokens = 2;
  EXPECT_EQ(judge(request, drafts, logits).tokens, (std::vector<TokenId>{10, 0}));
  request.stop_ids = {};
  request.max_tokens = 3;
  EXPECT_EQ(judge(request, drafts, logits).tokens, (std::vector<TokenId>{10, 11, 12}));
}

TEST(SliceSampler, a_row_without_numbers_fails_after_the_tokens_before_it) {
  std::vector<float> logits(2 * kVocab, 0.0f);
  logits[9] = 5;
  logits[kVocab + 3] = NAN;
  const Judged judged = judge(request_with({.temperature = 0}), {9}, logits);
  EXPECT_EQ(judged.result.failure, SliceFailure::kNotNumbers);
  EXPECT_EQ(judged.tokens, std::vector<TokenId>{9});
}

TEST(SliceSampler, a_row_without_a_token_that_may_come_is_no_fault_of_the_model) {
  const std::vector<float> logits = random_rows(2, 5);
  Request request = request_with({.temperature = 0});
  request.sampling.allowed_ids = {7};
  EXPECT_EQ(judge(request, {}, logits).tokens, std::vector<TokenId>{7});
  request.sampling.bad_words = {{7}};
  EXPECT_EQ(judge(request, {}, logits).result.failure, SliceFailure::kNoToken);
  // An answer that has begun ends.
  request.sampling.bad_words = {{7, 7}};
  const Judged judged = judge(request, {7}, logits);
  EXPECT_EQ(judged.result.failure, SliceFailure::kNone);
  EXPECT_TRUE(judged.result.finished == FinishReason::kStop);
  EXPECT_EQ(judged.tokens, std::vector<TokenId>{7});
  // Stop ids that may not come yet.
  request = request_with({.temperature = 0});
  request.sampling.allowed_ids = {3};
  request.stop_ids = {3};
  request.min_tokens = 2;
  EXPECT_EQ(judge(request, {}, logits).result.failure, SliceFailure::kNoToken);
  // All logits are -infinity.
  const std::vector<float> nothing(kVocab, -INFINITY);
  EXPECT_EQ(judge(request_with({}), {}, nothing).result.failure, SliceFailure::kNotNumbers);
}

}  // namespace
}  // namespace glint
