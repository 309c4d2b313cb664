// Single decisions of the scheduler: which requests run, wait or are refused. Simulation checks
// throughout that answers are right, here as in scheduler_property_test.cc.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include "engine/simulation.h"

namespace glint {
namespace {

Request make(RequestId id, int prompt_size, int max_tokens = 4) {
  Request request;
  request.id = id;
  for (int i = 0; i < prompt_size; ++i)
    request.prompt.own().push_back(static_cast<TokenId>((static_cast<int>(id) * 100 + i) % 997));
  request.max_tokens = max_tokens;
  return request;
}

// Pages of 4 tokens, enough of them, steps of 64 tokens, one plan at a time.
SimulationOptions roomy() {
  SimulationOptions options;
  options.scheduler = {.max_step_tokens = 64, .max_running = 8, .depth = 1};
  options.cache = {.num_pages = 200, .page_size = 4};
  return options;
}

// One step: planned, run, committed. Returns the ids and counts of its slices.
using Slices = std::vector<std::pair<RequestId, int>>;
Slices step(Simulation& sim, int prompt_budget = 1000) {
  if (!sim.plan(prompt_budget)) return {};
  Slices slices;
  for (const SeqSlice& slice : sim.commit().slices) slices.emplace_back(slice.id, slice.count);
  return slices;
}

TEST(Scheduler, a_long_prompt_runs_in_chunks_beside_decoding_sequences) {
  Simulation sim(roomy());
  ASSERT_TRUE(sim.submit(make(1, 5, 20)).ok());
  EXPECT_EQ(step(sim), (Slices{{1, 5}}));
  ASSERT_TRUE(sim.submit(make(2, 100)).ok());
  EXPECT_EQ(step(sim), (Slices{{1, 1}, {2, 63}}));
  EXPECT_EQ(step(sim, 10), (Slices{{1, 1}, {2, 10}}));
  EXPECT_EQ(step(sim), (Slices{{1, 1}, {2, 27}}));
  EXPECT_EQ(step(sim), (Slices{{1, 1}, {2, 1}}));
  sim.drain();
}

TEST(Scheduler, without_a_budget_a_page_runs_if_nothing_else_does) {
  Simulation sim(roomy());
  ASSERT_TRUE(sim.submit(make(1, 20)).ok());
  EXPECT_EQ(step(sim, 0), (Slices{{1, 4}}));
  EXPECT_EQ(step(sim, 2), (Slices{{1, 2}}));
  sim.drain(0);
}

TEST(Scheduler, first_come_first_served_and_lower_priority_numbers_first) {
  SimulationOptions options = roomy();
  options.scheduler.max_running = 1;
  Simulation sim(options);
  ASSERT_TRUE(sim.submit(make(1, 4, 1)).ok());
  ASSERT_TRUE(sim.submit(make(2, 4, 1)).ok());
  Request urgent = make(3, 4, 1);
  urgent.priority = -1;
  ASSERT_TRUE(sim.submit(urgent).ok());
  EXPECT_EQ(step(sim), (Slices{{3, 4}}));
  EXPECT_EQ(step(sim), (Slices{{1, 4}}));
  EXPECT_EQ(step(sim), (Slices{{2, 4}}));
  sim.drain();
}

TEST(Scheduler, a_better_priority_takes_a_slot_from_a_worse_but_an_equal_one_does_not) {
  SimulationOptions options = roomy();
  options.scheduler.max_running = 1;
  Simulation sim(options);
  ASSERT_TRUE(sim.submit(make(1, 4, 9)).ok());
  step(sim);
  ASSERT_TRUE(sim.submit(make(2, 4, 1)).ok());
  EXPECT_EQ(step(sim), (Slices{{1, 1}}));
  Request urgent = make(3, 4, 1);
  urgent.priority = -1;
  ASSERT_TRUE(sim.submit(urgent).ok());
  EXPECT_EQ(step(sim), (Slices{{1, 1}}));  // it was planned before the slot was taken
  EXPECT_EQ(step(sim), (Slices{{3, 4}}));
  EXPECT_EQ(step(sim).front().first, 1u);  // before 2, which came later
  sim.drain();
  EXPECT_EQ(sim.outcome(1).usage.preemptions, 1);
}

TEST(Scheduler, the_newest_is_preempted_and_resumes_from_what_is_still_cached) {
  SimulationOptions options = roomy();
  options.cache.num_pages = 12;
  Simulation sim(options);
  ASSERT_TRUE(sim.submit(make(1, 16, 30)).ok());
  ASSERT_TRUE(sim.submit(make(2, 16, 30)).ok());
  sim.drain();
  EXPECT_EQ(sim.outcome(1).usage.preemptions, 0);
  EXPECT_GE(sim.outcome(2).usage.preemptions, 1);
  EXPECT_EQ(sim.scheduler.stats().preemptions,
            static_cast<std::uint64_t>(sim.outcome(2).usage.preemptions));
}

TEST(Scheduler, who_would_soon_be_preempted_waits) {
  SimulationOptions options = roomy();
  options.cache = {.num_pages = 40, .page_size = 4};
  options.scheduler.max_running = 40;
  options.scheduler.max_step_tokens = 200;
  Simulation sim(options);
  for (RequestId id = 1; id <= 30; ++id) ASSERT_TRUE(sim.submit(make(id, 12, 60)).ok());
  sim.drain();
  // Prompts of 3 pages that become 18: 53 preemptions; 78 if each ran as soon as its prompt fits.
  EXPECT_LT(sim.scheduler.stats().preemptions, 65u);
}

TEST(Scheduler, equal_prompts_submitted_together_are_computed_once) {
  for (const int depth : {1, 2}) {
    SimulationOptions options = roomy();
    options.scheduler.depth = depth;
    options.scheduler.max_running = 32;
    Simulation sim(options);
    Request request = make(1, 120, 3);
    for (RequestId id = 1; id <= 16; ++id) {
      request.id = id;
      request.sampling.seed = id;
      ASSERT_TRUE(sim.submit(request).ok());
    }
    sim.drain();
    EXPECT_EQ(sim.outcome(1).usage.cached_tokens, 0);
    for (RequestId id = 2; id <= 16; ++id) EXPECT_EQ(sim.outcome(id).usage.cached_tokens, 116);
    EXPECT_LT(sim.executor.rows(), 120u + 16 * 10);
  }
}

TEST(Scheduler, who_waits_for_a_prefix_lets_others_pass) {
  Simulation sim(roomy());
  Request request = make(1, 120, 3);
  ASSERT_TRUE(sim.submit(request).ok());
  request.id = 2;
  ASSERT_TRUE(sim.submit(request).ok());
  ASSERT_TRUE(sim.submit(make(3, 8)).ok());
  EXPECT_EQ(step(sim, 40), (Slices{{1, 40}}));
  EXPECT_EQ(step(sim, 40), (Slices{{1, 40}}));
  EXPECT_EQ(step(sim, 50), (Slices{{1, 40}, {3, 8}}));
  EXPECT_EQ(step(sim), (Slices{{1, 1}, {3, 1}, {2, 4}}));
  sim.drain();
}

TEST(Scheduler, nobody_waits_for_a_prefix_of_worse_priority) {
  Simulation sim(roomy());
  Request request = make(1, 120, 3);
  request.priority = 1;
  ASSERT_TRUE(sim.submit(request).ok());
  EXPECT_EQ(step(sim, 40), (Slices{{1, 40}}));
  request.id = 2;
  request.priority = 0;
  ASSERT_TRUE(sim.submit(request).ok());
  EXPECT_EQ(step(sim, 60), (Slices{{1, 60}}));  // what runs goes first
  EXPECT_EQ(step(sim, 60), (Slices{{1, 20}, {2, 20}}));
  sim.drain();
  EXPECT_EQ(sim.outcome(2).usage.cached_tokens, 100);
}

TEST(Scheduler, a_turn_of_a_chat_finds_the_turns_before) {
  Simulation sim(roomy());
  ASSERT_TRUE(sim.submit(make(1, 30, 10)).ok());
  sim.drain();
  Request next = make(1, 30, 10);
  next.id = 2;
  const std::vector<TokenId>& answer = sim.outcome(1).tokens;
  next.prompt.own().insert(next.prompt.own().end(), answer.begin(), answer.end());
  next.prompt.own().push_back(5);
  ASSERT_TRUE(sim.submit(next).ok());
  sim.drain();
  EXPECT_EQ(sim.outcome(2).usage.cached_tokens, 36);  // 39 rows ran, in pages of 4
}

TEST(Scheduler, prompt_log_probabilities_need_every_row) {
  Simulation sim(roomy());
  Request request = make(1, 100, 2);
  ASSERT_TRUE(sim.submit(request).ok());
  sim.drain();
  request.id = 2;
  request.want.prompt_logprobs = 0;
  ASSERT_TRUE(sim.submit(request).ok());
  sim.drain();
  EXPECT_EQ(sim.outcome(2).usage.cached_tokens, 0);
  EXPECT_EQ(sim.outcome(2).num_prompt_logprobs, 99u);
}

TEST(Scheduler, experts_of_a_prompt_are_told_without_a_gap) {
  SimulationOptions options = roomy();
  options.cache.num_pages = 13;
  options.executor.info.num_moe_layers = 1;
  options.executor.info.num_experts = options.executor.info.num_experts_per_tok = 8;
  Simulation sim(options);
  ASSERT_TRUE(sim.submit(make(1, 4, 30)).ok());
  step(sim);
  Request request = make(2, 40);
  request.want.routed_experts = true;
  request.priority = 1;
  ASSERT_TRUE(sim.submit(request).ok());
  while (sim.scheduler.num_running() < 2) step(sim, 2);
  while (sim.scheduler.num_running() == 2) step(sim, 2);
  // Preempted in the middle of its prompt, which another reads to its end.
  request.id = 3;
  request.priority = 0;
  ASSERT_TRUE(sim.submit(request).ok());
  sim.drain();
  EXPECT_EQ(sim.outcome(2).usage.preemptions, 1);
  EXPECT_EQ(sim.outcome(2).num_routed, 43u * 8);
}

TEST(Scheduler, min_tokens_stop_ids_and_limits_end_answers_where_they_say) {
  for (const int depth : {1, 2, 4}) {
    for (const int drafts : {0, 3}) {
      SimulationOptions options = roomy();
      options.scheduler.depth = depth;
      options.scheduler.max_drafts = drafts;
      options.scheduler.max_seq_len = 40;
      options.executor.script = [](const Request&) {
        return std::vector<TokenId>{10, 11, 12, 7, 13, 14, 7, 15};
      };
      Simulation sim(options);
      Request request = make(1, 5, 20);
      request.stop_ids = {7, 8};
      ASSERT_TRUE(sim.submit(request).ok());
      request.id = 2;
      request.min_tokens = 3;  // the stop id is the fourth token: it may come
      ASSERT_TRUE(sim.submit(request).ok());
      request.id = 3;
      request.min_tokens = 4;
      ASSERT_TRUE(sim.submit(request).ok());
      request.id = 4;
      request.stop_ids = {};
      request.max_tokens = 6;
      ASSERT_TRUE(sim.submit(request).ok());
      request = make(5, 33, 100);  // the context ends it
      ASSERT_TRUE(sim.submit(request).ok());
      sim.drain();
      using Tokens = std::vector<TokenId>;
      EXPECT_EQ(sim.outcome(1).tokens, (Tokens{10, 11, 12, 7}));
      EXPECT_EQ(sim.outcome(2).tokens, (Tokens{10, 11, 12, 7}));
      EXPECT_EQ(sim.outcome(3).tokens, (Tokens{10, 11, 12, 7, 13, 14, 7}));
      EXPECT_EQ(sim.outcome(4).tokens, (Tokens{10, 11, 12, 7, 13, 14}));
      EXPECT_EQ(sim.outcome(5).tokens.size(), 7u);
      EXPECT_EQ(sim.outcome(5).finished, FinishReason::kLength);
    }
  }
}

TEST(Scheduler, drafts_follow_what_is_accepted) {
  const auto drafted_and_accepted = [](bool right) {
    SimulationOptions options = roomy();
    options.scheduler.max_drafts = 3;
    options.executor.draft_is_right = [right](RequestId, int) { return right; };
    Simulation sim(options);
    EXPECT_TRUE(sim.submit(make(1, 5, 400)).ok());
    sim.drain();
    return std::pair(sim.outcome(1).usage.drafted, sim.outcome(1).usage.accepted);
  };
  const auto [drafted, accepted] = drafted_and_accepted(true);
  EXPECT_EQ(drafted, accepted);
  EXPECT_GE(accepted, 290);  // three of four tokens
  const auto [wrong, none] = drafted_and_accepted(false);
  EXPECT_EQ(none, 0);
  EXPECT_LT(wrong, 60);  // only tried now and then
  EXPECT_GT(wrong, 10);
}

TEST(Scheduler, drafts_that_are_not_adapted_stay_as_many) {
  SimulationOptions options = roomy();
  options.scheduler.max_drafts = 3;
  options.scheduler.adapt_drafts = false;
  options.executor.draft_is_right = [](RequestId, int) { return false; };
  Simulation sim(options);
  ASSERT_TRUE(sim.submit(make(1, 5, 40)).ok());
  sim.drain();
  EXPECT_EQ(sim.outcome(1).usage.drafted, 36 * 3 + 2 + 1);  // fewer at the end
}

TEST(Scheduler, drafts_shrink_so_that_every_decoding_sequence_fits_in_the_step) {
  SimulationOptions options = roomy();
  options.scheduler = {
      .max_step_tokens = 16, .max_running = 8, .depth = 1, .max_drafts = 3, .adapt_drafts = false};
  Simulation sim(options);
  for (RequestId id = 1; id <= 8; ++id) ASSERT_TRUE(sim.submit(make(id, 1, 40)).ok());
  step(sim);
  const Slices slices = step(sim);
  ASSERT_EQ(slices.size(), 8u);
  for (const auto& [id, count] : slices) EXPECT_EQ(count, 2) << id;
  sim.drain();
}

TEST(Scheduler, drafts_leave_room_to_prompts) {
  SimulationOptions options = roomy();
  options.scheduler = {
      .max_step_tokens = 16, .max_running = 8, .depth = 1, .max_drafts = 3, .adapt_drafts = false};
  Simulation sim(options);
  for (RequestId id = 1; id <= 4; ++id) ASSERT_TRUE(sim.submit(make(id, 1, 40)).ok());
  step(sim);
  EXPECT_EQ(step(sim), (Slices{{1, 4}, {2, 4}, {3, 4}, {4, 4}}));  // nobody else is there
  ASSERT_TRUE(sim.submit(make(5, 6, 40)).ok());
  EXPECT_EQ(step(sim), (Slices{{1, 3}, {2, 3}, {3, 3}, {4, 3}, {5, 4}}));
  EXPECT_EQ(step(sim), (Slices{{1, 3}, {2, 3}, {3, 3}, {4, 3}, {5, 2}}));
  EXPECT_EQ(step(sim, 0), (Slices{{1, 3}, {2, 3}, {3, 3}, {4, 3}, {5, 3}}));
  sim.drain();
}

TEST(Scheduler, drafts_leave_no_room_to_those_who_wait_for_a_slot) {
  SimulationOptions options = roomy();
  options.scheduler = {
      .max_step_tokens = 16, .max_running = 4, .depth = 1, .max_drafts = 3, .adapt_drafts = false};
  Simulation sim(options);
  for (RequestId id = 1; id <= 5; ++id) ASSERT_TRUE(sim.submit(make(id, 1, 40)).ok());
  step(sim);
  EXPECT_EQ(step(sim), (Slices{{1, 4}, {2, 4}, {3, 4}, {4, 4}}));
  Request urgent = make(6, 6, 40);  // takes the slot of the last
  urgent.priority = -1;
  ASSERT_TRUE(sim.submit(urgent).ok());
  step(sim);
  EXPECT_EQ(step(sim), (Slices{{1, 4}, {2, 4}, {3, 4}, {6, 4}}));
  sim.drain();
}

TEST(Scheduler, two_plans_in_flight_hide_the_commit) {
  SimulationOptions options = roomy();
  options.scheduler.depth = 2;
  Simulation sim(options);
  ASSERT_TRUE(sim.submit(make(1, 5, 9)).ok());
  ASSERT_TRUE(sim.plan(100));
  ASSERT_TRUE(sim.plan(100));
  EXPECT_FALSE(sim.plan(100));
  const StepPlan& second = sim.in_flight.back();
  EXPECT_EQ(second.slices[0].first, 5);
  EXPECT_EQ(second.tokens, std::vector<TokenId>{kPendingToken});
  sim.drain();
  EXPECT_EQ(sim.executor.rows(), 13u);  // and nothing ran beyond the limit
}

TEST(Scheduler, pages_of_an_aborted_request_come_back_with_its_step) {
  SimulationOptions options = roomy();
  options.scheduler.depth = 2;
  Simulation sim(options);
  ASSERT_TRUE(sim.submit(make(1, 20, 9)).ok());
  ASSERT_TRUE(sim.plan(100));
  sim.abort(1);
  EXPECT_EQ(sim.num_used_pages(), 5);
  EXPECT_EQ(sim.scheduler.num_running(), 0);
  EXPECT_FALSE(sim.scheduler.idle());
  sim.commit();
  EXPECT_EQ(sim.num_used_pages(), 0);
  sim.drain();
  EXPECT_FALSE(sim.scheduler.abort(1).has_value());
}

TEST(Scheduler, a_grammar_can_end_an_answer) {
  Scheduler scheduler({.depth = 1}, {.num_pages = 8, .page_size = 4});
  ASSERT_TRUE(scheduler.add(make(1, 3, 9)).ok());
  const StepPlan plan = scheduler.schedule(100);
  StepResult result;
  result.sampled.push_back({.id = 1, .tokens = {5}, .finished = FinishReason::kStop});
  const std::vector<TokenEvent> events = scheduler.commit(plan, std::move(result));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].finished, FinishReason::kStop);
  EXPECT_FALSE(events[0].stop_id);
}

TEST(Scheduler, impossible_requests_are_refused_with_the_reason) {
  SimulationOptions options = roomy();
  options.scheduler.max_seq_len = 1000;
  Simulation sim(options);
  const auto error_of = [&](const Request& request) {
    const Status status = sim.submit(request);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(error_of(make(1, 0)), "the prompt is empty; it must have at least one token");
  EXPECT_EQ(error_of(make(1, 800)),
            "the prompt has 800 tokens, but prompt and answer together can have 800 here; "
            "shorten it");
  EXPECT_EQ(error_of(make(1, 5, 0)), "max_tokens is 0; it must be 1 or more");
  Request request = make(1, 5, 3);
  request.min_tokens = 4;
  EXPECT_EQ(error_of(request), "min_tokens is 4; it must be between 0 and max_tokens, 3");
  request = make(1, 5, 3);
  request.sampling.top_p = 0;
  EXPECT_EQ(error_of(request), "top-p is 0; it must be above 0 and at most 1");
  request = make(1, 5, 3);
  request.stop_ids = std::vector<TokenId>(2049, 7);
  EXPECT_EQ(error_of(request), "the request has 2049 stop ids; at most 2048 are allowed");
  EXPECT_EQ(error_of(make(1, 799)), "");
  sim.drain();
  EXPECT_EQ(sim.outcome(1).tokens.size(), 1u);
}

TEST(Scheduler, the_same_calls_give_the_same_plans) {
  const auto trace = [] {
    SimulationOptions options = roomy();
    options.cache.num_pages = 20;
    options.scheduler.max_drafts = 2;
    options.scheduler.depth = 2;
    Simulation sim(options);
    for (RequestId id = 1; id <= 8; ++id) {
      Request request = make(id % 3, 10 + static_cast<int>(id), 12);
      request.id = id;
      EXPECT_TRUE(sim.submit(request).ok());
    }
    std::string text;
    while (!sim.scheduler.idle()) {
      if (sim.plan(20)) text += describe(sim.in_flight.back()) + "\n";
      sim.commit();
    }
    return text;
  };
  EXPECT_EQ(trace(), trace());
}

TEST(Scheduler, waiting_tokens_are_what_the_queue_still_has_to_run) {
  Simulation sim(roomy());
  ASSERT_TRUE(sim.submit(make(1, 20)).ok());
  ASSERT_TRUE(sim.submit(make(2, 30)).ok());
  EXPECT_EQ(sim.scheduler.num_waiting_tokens(), 50);
  EXPECT_EQ(sim.scheduler.num_waiting(), 2);
  step(sim, 12);
  EXPECT_EQ(sim.scheduler.num_running(), 1);
  EXPECT_EQ(sim.scheduler.num_waiting_tokens(), 7 + 30);  // the last token decodes
  sim.drain();
  EXPECT_EQ(sim.scheduler.num_waiting_tokens(), 0);
}

TEST(SchedulerDeathTest, misuse_aborts) {
  EXPECT_DEATH(
      {
        Scheduler scheduler({.depth = 1}, {.num_pages = 8, .page_size = 4});
        (void)scheduler.add(make(1, 3));
        (void)scheduler.add(make(1, 3));
      },
      "exists already");
  EXPECT_DEATH(
      {
        Scheduler scheduler({.depth = 1}, {.num_pages = 8, .page_size = 4});
        (void)scheduler.commit(StepPlan{}, StepResult{});
      },
      "not the oldest in flight");
}

}  // namespace
}  // namespace glint
