// Extra outputs of a request besides its tokens, against passes over the whole text.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "executor/harness.h"
#include "executor/toy_grammar.h"
#include "ops/logit_rows.h"
#include "runtime/score.h"

namespace glint {
namespace {

constexpr int kAnswer = 32;

// The second prompt is nearer to the end of its pages than the first.
int prompt_length(RequestId id) { return 114 + 6 * static_cast<int>(id); }

Request curious(RequestId id) {
  return {
      .id = id,
      .prompt = prompt_of(static_cast<int>(id), prompt_length(id)),
      .sampling = {.temperature = 0.7, .seed = id},
      .max_tokens = kAnswer,
      .want = {
          .top_logprobs = 3, .prompt_logprobs = 2, .routed_experts = true, .selected_keys = true}};
}

const HarnessOptions kWays[] = {
    {},
    {.max_drafts = 3},
    {.max_drafts = 2, .max_step_tokens = 30, .depth = 2},
    // The second takes the last page, which the first needs then.
    {.num_pages = 5, .max_drafts = 1},
};

std::vector<Request> all_curious() { return {curious(1), curious(2), curious(3)}; }

TEST(Extras, the_last_way_preempts) {
  int preemptions = 0;
  for (const auto& [id, outcome] : run_all(all_curious(), kWays[3])) {
    preemptions += outcome.usage.preemptions;
  }
  EXPECT_GT(preemptions, 0);
}

TEST(Extras, logprobs_are_those_of_a_pass_over_the_text) {
  const std::size_t vocab = static_cast<std::size_t>(tiny().config().vocab_size);
  for (const HarnessOptions& way : kWays) {
    const auto outcomes = run_all(all_curious(), way);
    for (const Request& request : all_curious()) {
      const Outcome& outcome = outcomes.at(request.id);
      const std::vector<TokenId> tokens = whole(request, outcome);
      std::vector<TokenLogprob> got = outcome.extras.prompt_logprobs;
      ASSERT_EQ(got.size(), request.prompt.size() - 1);
      got.insert(got.end(), outcome.logprobs.begin(), outcome.logprobs.end());
      ASSERT_EQ(got.size(), tokens.size() - 1);
      ScoreSinks sinks;
      sinks.logits = [&](std::int64_t first, std::span<const float> logits) {
        for (std::size_t r = 0; r < logits.size() / vocab; ++r) {
          const std::size_t p = static_cast<std::size_t>(first) + r;
          if (p + 1 == tokens.size()) return;
          const int top = p + 1 < request.prompt.size() ? 2 : 3;
          const auto row = logits.subspan(r * vocab, vocab);
          const TokenId id = tokens[p + 1];
          EXPECT_NEAR(got[p].logprob, logprob(row, id), 2e-6 * (1 + std::abs(got[p].logprob))) << p;
          EXPECT_EQ(got[p].rank, 1 + std::count_if(row.begin(), row.end(), [&](float x) {
                                   return x > row[static_cast<std::size_t>(id)];
                                 }));
          std::vector<TokenId> order(vocab);
          std::iota(order.begin(), order.end(), 0);
          std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
            return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
          });
          ASSERT_EQ(got[p].top.size(), static_cast<std::size_t>(top)) << p;
          for (int i = 0; i < top; ++i) {
            const TokenLogprob::Top& other = got[p].top[static_cast<std::size_t>(i)];
            EXPECT_EQ(other.id, order[static_cast<std::size_t>(i)]);
            EXPECT_NEAR(other.logprob, logprob(row, other.id),
                        2e-6 * (1 + std::abs(other.logprob)));
          }
        }
      };
      ASSERT_TRUE(score(tiny(), tokens, {}, sinks).ok());
    }
  }
}

// Their results come in blocks, of fewer tokens than these.
TEST(Extras, logprobs_of_all_tokens_begin_as_those_of_a_few) {
  const int all = static_cast<int>(tiny().config().vocab_size);
  const auto run = [](int top) {
    std::vector<Request> requests(80);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i] = {.id = i + 1,
                     .prompt = prompt_of(static_cast<int>(i), 10),
                     .sampling = {.temperature = 0},
                     .max_tokens = 2,
                     .want = {.top_logprobs = top, .prompt_logprobs = top}};
    }
    return run_all(requests, {.max_step_tokens = 1024});
  };
  const auto expect_begins = [](const std::vector<TokenLogprob>& many,
                                const std::vector<TokenLogprob>& few) {
    ASSERT_EQ(many.size(), few.size());
    for (std::size_t t = 0; t < many.size(); ++t) {
      EXPECT_EQ(many[t].logprob, few[t].logprob);
      EXPECT_EQ(many[t].rank, few[t].rank);
      for (std::size_t k = 0; k < few[t].top.size(); ++k) {
        EXPECT_EQ(many[t].top[k].id, few[t].top[k].id);
        EXPECT_EQ(many[t].top[k].logprob, few[t].top[k].logprob);
      }
      EXPECT_LE(many[t].top.back().logprob, few[t].top.back().logprob);
    }
  };
  const auto few = run(3);
  for (const auto& [id, many] : run(all)) {
    expect_begins(many.logprobs, few.at(id).logprobs);
    expect_begins(many.extras.prompt_logprobs, few.at(id).extras.prompt_logprobs);
  }
}

TEST(Extras, routed_experts_are_those_of_a_pass_over_the_text) {
  LoadedModel& model = tiny();
  const std::size_t layers = static_cast<std::size_t>(model.config().num_moe_layers());
  const std::size_t k = static_cast<std::size_t>(model.config().num_experts_per_tok);
  for (const HarnessOptions& way : kWays) {
    std::vector<Request> requests = all_curious();
    const auto grammar = std::make_shared<ToyGrammar>(14, 7);  // sometimes late; its end is a row
    grammar->work_ = [](int position) { return position % 4 == 1 ? kMaxMaskWork : 1; };
    grammar->slowly_ = true;
    requests[2].constraint = grammar;
    const auto outcomes = run_all(requests, way);
    for (const Request& request : requests) {
      const Outcome& outcome = outcomes.at(request.id);
      std::vector<TokenId> tokens = whole(request, outcome);
      tokens.pop_back();  // the last one did not run
      StepRows plan;
      const std::vector<PageId> pages = {2, 0, 1};  // in any order
      plan.add(0, tokens, pages, 0);
      ASSERT_TRUE(model.reserve_pages(3).ok());
      const StepOutput out = model.step(plan, {.routed = true});
      const std::vector<std::uint16_t>& got = outcome.extras.routed_experts;
      ASSERT_EQ(got.size(), tokens.size() * layers * k);
      for (std::size_t row = 0; row < tokens.size(); ++row) {
        for (std::size_t i = 0; i < layers * k; ++i) {
          const std::size_t layer = i / k;
          ASSERT_EQ(got[row * layers * k + i],
                    out.routed[(layer * tokens.size() + row) * k + i % k])
              << "row " << row << ", layer " << layer;
        }
      }
    }
  }
}

TEST(Extras, selected_keys_are_those_of_the_last_prompt_row) {
  // Longer than index_topk, so that the indexer has to choose.
  Request request = curious(1);
  request.prompt.own().clear();
  for (int i = 0; static_cast<int>(request.prompt.size()) < 300; ++i) {
    const std::vector<TokenId> more = prompt_of(i, 90);
    request.prompt.own().insert(request.prompt.own().end(), more.begin(), more.end());
  }
  const int last = static_cast<int>(request.prompt.size()) - 1;
  std::vector<int> expected(request.prompt.size());
  ScoreSinks sinks;
  const int topk = static_cast<int>(tiny().config().index_topk);
  sinks.selected = [&](int, std::int64_t first, std::span<const std::int32_t> positions) {
    const std::int64_t row = last - first;
    if (row < 0 || row >= static_cast<std::int64_t>(positions.size()) / topk) return;
    for (const std::int32_t p : positions.subspan(row * topk, topk)) {
      if (p >= 0) ++expected[p];
    }
  };
  ASSERT_TRUE(score(tiny(), request.prompt, {}, sinks).ok());
  for (const int step_tokens : {512, 100}) {
    const Outcome outcome = run_all({request, curious(2)}, {.max_step_tokens = step_tokens}).at(1);
    std::vector<int> got(request.prompt.size());
    int reads = 0;
    for (const Extras::KeyRead& read : outcome.extras.selected_keys) {
      got[read.position] += read.num_layers;
      reads += read.num_layers;
    }
    EXPECT_EQ(got, expected);
    EXPECT_EQ(reads, topk * tiny().config().num_hidden_layers);
  }
}

TEST(Extras, a_cached_prefix_hides_no_prompt_logprobs) {
  Harness harness(tiny(), {.max_drafts = 1});
  Request again = curious(2);
  again.id = 20;
  const Outcome first = harness.run({curious(2)}).at(2);
  const Outcome second = harness.run({again}).at(20);
  EXPECT_EQ(second.tokens, first.tokens);
  ASSERT_EQ(second.extras.prompt_logprobs.size(), first.extras.prompt_logprobs.size());
  ASSERT_EQ(first.extras.prompt_logprobs.size(), again.prompt.size() - 1);
  for (std::size_t i = 0; i + 1 < again.prompt.size(); ++i) {
    EXPECT_EQ(second.extras.prompt_logprobs[i].logprob, first.extras.prompt_logprobs[i].logprob);
  }
}

TEST(Extras, nobody_is_told_what_they_did_not_want) {
  Request request = curious(1);
  request.want = {};
  const Outcome outcome = run_all({request}).at(1);
  EXPECT_TRUE(outcome.logprobs.empty());
  EXPECT_TRUE(outcome.extras.prompt_logprobs.empty());
  EXPECT_TRUE(outcome.extras.routed_experts.empty());
  EXPECT_TRUE(outcome.extras.selected_keys.empty());
}

TEST(Extras, every_row_counts_in_the_load_of_the_experts) {
  Harness harness(tiny(), {});
  harness.run(all_curious());
  const ExecutorInfo& info = harness.executor().info();
  const std::vector<std::uint64_t> load = harness.executor().expert_load();
  ASSERT_EQ(load.size(), static_cast<std::size_t>(info.num_moe_layers * info.num_experts));
  ASSERT_EQ(info.moe_layers.size(), static_cast<std::size_t>(info.num_moe_layers));
  std::uint64_t rows = 0;
  for (const Request& request : all_curious()) rows += request.prompt.size() + kAnswer - 1;
  for (int layer = 0; layer < info.num_moe_layers; ++layer) {
    std::uint64_t sum = 0;
    for (int e = 0; e < info.num_experts; ++e) sum += load[layer * info.num_experts + e];
    EXPECT_EQ(sum, rows * info.num_experts_per_tok);
  }
}

}  // namespace
}  // namespace glint
