// Grammars, with and without drafts.
#include "executor/harness.h"
#include "executor/toy_grammar.h"

namespace glint {
namespace {

struct Followed {
  std::map<RequestId, Outcome> outcomes;
  std::vector<std::shared_ptr<ToyGrammar>> grammars;
};

Followed run(const HarnessOptions& options, std::vector<TokenId> stop_ids = {},
             const std::function<void(ToyGrammar&)>& change = {}) {
  Followed result;
  std::vector<Request> requests = mixed_requests(6, 60, 40);
  for (Request& request : requests) {
    result.grammars.push_back(std::make_shared<ToyGrammar>(14 + static_cast<int>(request.id), 7));
    request.constraint = result.grammars.back();
    if (change) change(*result.grammars.back());
    request.stop_ids = stop_ids;
  }
  result.outcomes = run_all(requests, options);
  return result;
}

TEST(Grammars, are_followed_to_their_end) {
  const Followed plain = run({});
  for (const auto& [id, outcome] : plain.outcomes) {
    ToyGrammar grammar(14 + static_cast<int>(id), 7);
    ASSERT_EQ(outcome.tokens.size(), 15 + id);
    for (const TokenId token : outcome.tokens) EXPECT_TRUE(grammar.accept(token));
    EXPECT_TRUE(grammar.is_complete());
    EXPECT_EQ(outcome.finished, FinishReason::kStop);
  }
}

TEST(Grammars, mean_the_same_with_drafts_and_plans_in_flight) {
  const Followed plain = run({});
  for (const HarnessOptions& options :
       {HarnessOptions{.max_drafts = 1}, HarnessOptions{.max_drafts = 3},
        HarnessOptions{.max_drafts = 3, .depth = 2},
        HarnessOptions{.num_pages = 6, .max_drafts = 2, .max_step_tokens = 64}}) {
    const Followed drafted = run(options);
    int rolled_back = 0, accepted = 0;
    for (const auto& [id, outcome] : drafted.outcomes) {
      EXPECT_EQ(outcome.tokens, plain.outcomes.at(id).tokens) << "request " << id;
      EXPECT_EQ(outcome.finished, FinishReason::kStop);
      accepted += outcome.usage.accepted;
    }
    for (const auto& grammar : drafted.grammars) rolled_back += grammar->rolled_back_;
    EXPECT_GT(rolled_back, 0);
    EXPECT_GT(accepted, 0);
  }
}

TEST(Grammars, may_end_with_a_stop_id) {
  const Followed stopped = run({.max_drafts = 2}, {7});
  for (const auto& [id, outcome] : stopped.outcomes) {
    EXPECT_EQ(outcome.finished, FinishReason::kStop);
    EXPECT_EQ(outcome.tokens.back(), 7);
  }
}

TEST(Grammars, masks_are_not_computed_by_the_thread_that_executes) {
  const Followed plain = run({});
  for (const auto& grammar : plain.grammars) {
    for (const std::thread::id id : grammar->threads_) EXPECT_NE(id, std::this_thread::get_id());
  }
}

// Much work, or slow: the same tokens come, later, and others do not wait for them.
TEST(Grammars, mean_the_same_when_their_masks_are_late) {
  const Followed plain = run({});
  for (const HarnessOptions& options :
       {HarnessOptions{}, HarnessOptions{.depth = 2}, HarnessOptions{.max_drafts = 2, .depth = 2},
        HarnessOptions{.num_pages = 6, .max_drafts = 2, .max_step_tokens = 64}}) {
    const Followed late = run(options, {}, [](ToyGrammar& grammar) {
      grammar.slowly_ = true;
      grammar.work_ = [](int position) { return position % 4 == 1 ? kMaxMaskWork : 1; };
    });
    for (const auto& [id, outcome] : late.outcomes) {
      EXPECT_EQ(outcome.tokens, plain.outcomes.at(id).tokens) << "request " << id;
      EXPECT_EQ(outcome.finished, FinishReason::kStop);
    }
  }
}

TEST(Grammars, that_take_too_much_work_fail_alone) {
  std::vector<Request> requests = mixed_requests(3, 20, 10);
  const auto grammar = std::make_shared<ToyGrammar>(10, 7);
  grammar->work_ = [](int position) { return position < 4 ? 1 : kMaxMaskWork + 1; };
  requests[1].constraint = grammar;
  const auto outcomes = run_all(requests);
  EXPECT_EQ(outcomes.at(1).finished, FinishReason::kLength);
  EXPECT_EQ(outcomes.at(3).finished, FinishReason::kLength);
  EXPECT_EQ(outcomes.at(2).finished, FinishReason::kError);
  EXPECT_EQ(outcomes.at(2).tokens.size(), 4u);
}

// A request fails where neither a token nor an end is allowed: it does not say something else.
TEST(Grammars, a_request_to_which_nothing_may_come_fails) {
  Request request = mixed_requests(1, 20, 10)[0];
  request.sampling.allowed_ids = {5};
  request.constraint = std::make_shared<ToyGrammar>(10, 7);  // wants ids that are multiples of 3
  EXPECT_EQ(run_all({request}).at(1).finished, FinishReason::kError);
}

}  // namespace
}  // namespace glint
