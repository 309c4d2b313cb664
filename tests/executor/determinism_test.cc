// The same request gives the same tokens alone, in a batch, after a cache hit, with drafts, in
// chunks, after preemption and after failures.
#include "executor/harness.h"

namespace glint {
namespace {

constexpr int kPrompt = 70, kAnswer = 24;

const std::vector<Request>& requests() {
  static const std::vector<Request> list = mixed_requests(6, kPrompt, kAnswer);
  return list;
}

// Each alone, in one chunk, without drafts.
const std::map<RequestId, Outcome>& alone() {
  static const std::map<RequestId, Outcome> outcomes = [] {
    std::map<RequestId, Outcome> all;
    for (const Request& request : requests()) all.merge(run_all({request}));
    return all;
  }();
  return outcomes;
}

void expect_same(const std::map<RequestId, Outcome>& outcomes) {
  for (const auto& [id, expected] : alone()) {
    EXPECT_EQ(outcomes.at(id).tokens, expected.tokens) << "request " << id;
    EXPECT_EQ(outcomes.at(id).finished, expected.finished) << "request " << id;
  }
}

TEST(Deterministic, seeds_matter_and_answers_are_full) {
  for (const auto& [id, outcome] : alone()) EXPECT_EQ(outcome.tokens.size(), std::size_t{kAnswer});
  // The model is sure of some texts: there any seed says the same.
  int others = 0;
  for (Request request : requests()) {
    request.sampling.seed += 1000;
    others += run_all({request}).at(request.id).tokens != alone().at(request.id).tokens;
  }
  EXPECT_GT(others, 0);
}

TEST(Deterministic, in_a_batch_of_64) {
  std::vector<Request> all = requests();
  for (Request& request : mixed_requests(64, kSanitized ? 5 : 30, kSanitized ? 4 : 30)) {
    if (request.id <= all.size()) continue;
    all.push_back(request);
  }
  ASSERT_EQ(all.size(), 64u);
  expect_same(run_all(all, {.max_step_tokens = 4096}));
  expect_same(run_all(all, {.max_drafts = 2, .max_step_tokens = 4096}));
}

TEST(Deterministic, in_chunks) {
  expect_same(run_all(requests(), {.max_step_tokens = 37}));
  expect_same(run_all(requests(), {.max_drafts = 3, .max_step_tokens = 61, .prompt_budget = 16}));
}

TEST(Deterministic, with_drafts) {
  int drafted = 0, accepted = 0;
  for (const int drafts : {1, 2, 3}) {
    const auto outcomes = run_all(requests(), {.max_drafts = drafts});
    expect_same(outcomes);
    for (const auto& [id, outcome] : outcomes) {
      drafted += outcome.usage.drafted;
      accepted += outcome.usage.accepted;
    }
  }
  // Neither all right nor all wrong, so that both ends of a verification ran.
  EXPECT_GT(accepted, 10);
  EXPECT_LT(accepted, drafted);
  expect_same(run_all(requests(), {.max_drafts = 3, .adapt_drafts = true}));
}

TEST(Deterministic, with_plans_in_flight) {
  expect_same(run_all(requests(), {.depth = 2}));
  expect_same(run_all(requests(), {.max_drafts = 2, .depth = 2}));
  expect_same(run_all(requests(), {.max_drafts = 3, .max_step_tokens = 50, .depth = 4}));
}

TEST(Deterministic, after_a_cache_hit) {
  for (const int drafts : {0, 2}) {
    Harness harness(tiny(), {.max_drafts = drafts});
    expect_same(harness.run(requests()));
    std::vector<Request> again = requests();
    for (Request& request : again) request.id += 100;
    const auto outcomes = harness.run(again);
    for (const auto& [id, expected] : alone()) {
      EXPECT_EQ(outcomes.at(id + 100).tokens, expected.tokens) << "request " << id;
      EXPECT_EQ(outcomes.at(id + 100).usage.cached_tokens, 64) << "request " << id;
    }
  }
}

TEST(Deterministic, after_preemption) {
  // They start with a page each and end with three.
  const std::vector<Request> list = mixed_requests(4, 50, 90);
  const auto expected = run_all(list);
  for (const HarnessOptions& options :
       {HarnessOptions{.num_pages = 5}, HarnessOptions{.num_pages = 5, .max_drafts = 2},
        HarnessOptions{.num_pages = 4, .max_drafts = 3, .max_step_tokens = 60, .depth = 2}}) {
    int preemptions = 0;
    for (const auto& [id, outcome] : run_all(list, options)) {
      EXPECT_EQ(outcome.tokens, expected.at(id).tokens) << "request " << id;
      preemptions += outcome.usage.preemptions;
    }
    EXPECT_GT(preemptions, 0);
  }
}

// The executor knows nothing then but the tokens of each sequence.
TEST(Deterministic, after_failures) {
  for (const int drafts : {0, 2}) {
    Harness harness(tiny(), {.max_drafts = drafts});
    for (const Request& request : requests()) harness.submit(request);
    for (int step = 1; harness.step(); ++step) {
      if (step % 3) continue;
      ASSERT_TRUE(harness.executor().recover().ok());
    }
    for (const auto& [id, expected] : alone()) {
      EXPECT_EQ(harness.outcome(id).tokens, expected.tokens) << "request " << id;
    }
  }
}

}  // namespace
}  // namespace glint
