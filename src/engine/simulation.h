// Simulation: scheduler, cache and fake executor driven step by step, for tests. It holds every
// answer against the one that the request gets alone, and checks all invariants after each step.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <unordered_map>

#include "engine/fake_executor.h"
#include "engine/scheduler.h"

namespace glint {

struct SimulationOptions {
  SchedulerConfig scheduler = {};
  KvCacheConfig cache = {};
  FakeExecutorOptions executor = {};
};

inline SimulationOptions with_sizes(SimulationOptions options) {
  options.executor.num_pages = options.cache.num_pages;
  options.executor.page_size = options.cache.page_size;
  options.executor.info.max_seq_len = options.scheduler.max_seq_len;
  options.executor.info.max_drafts = options.scheduler.max_drafts;
  options.executor.info.num_replicas = options.scheduler.num_replicas;
  options.executor.info.num_stages = options.scheduler.num_stages;
  options.cache.match_next_token = options.scheduler.max_drafts > 0;
  return options;
}

class Simulation {
 public:
  // The result of one request, and the expected one.
  struct Outcome {
    std::shared_ptr<const Request> request;
    std::vector<TokenId> expected = {}, tokens = {};
    std::size_t num_logprobs = 0, num_prompt_logprobs = 0, num_routed = 0, num_key_reports = 0;
    std::optional<FinishReason> finished = {};
    TokenEvent::Usage usage = {};
    bool aborted = false;
  };

  explicit Simulation(const SimulationOptions& options)
      : options_(with_sizes(options)),
        scheduler(options_.scheduler, options_.cache),
        executor(options_.executor) {
    executor.set_wake(
        [this](RequestId id, std::uint64_t number) { late.emplace_back(id, number); });
  }

  Status submit(Request request) {
    if (request.id == 0) request.id = ++last_id_;
    GLINT_TRY_STATUS(scheduler.add(request));
    Outcome outcome = {.request = std::make_shared<const Request>(request)};
    outcome.expected = executor.answer_alone(request);
    outcomes.emplace(request.id, std::move(outcome));
    ++num_alive;
    return Ok{};
  }

  void abort(RequestId id) {
    const bool was_alive = !outcomes.at(id).finished;
    std::optional<TokenEvent> event = scheduler.abort(id);
    ASSERT_EQ(event.has_value(), was_alive);
    outcomes.at(id).aborted = was_alive;
    if (event) take(*event);
  }

  // Late sequences go on: at every third step, and when nothing is in flight.
  void wake() {
    for (const auto& [id, number] : std::exchange(late, {})) scheduler.wake(id, number);
  }

  // Hands out a plan; false if there is none.
  bool plan(int prompt_budget) {
    if (in_flight.empty()) wake();
    StepPlan plan = scheduler.schedule(prompt_budget);
    scheduler.check_invariants();
    if (plan.empty()) return false;
    std::vector<int> tokens(static_cast<std::size_t>(options_.scheduler.num_replicas));
    for (const SeqSlice& slice : plan.slices)
      tokens.at(static_cast<std::size_t>(slice.replica)) += slice.count;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_LE(tokens[i], options_.scheduler.max_step_tokens);
      num_empty_parts += tokens[i] == 0;
    }
    EXPECT_LE(static_cast<int>(plan.slices.size()), options_.scheduler.max_running);
    std::set<int> seats;
    for (const SeqSlice& slice : plan.slices) {
      EXPECT_TRUE(slice.seat >= 0 && slice.seat < options_.scheduler.max_running) << slice.seat;
      EXPECT_TRUE(seats.insert(slice.seat).second) << "two sequences in seat " << slice.seat;
      EXPECT_TRUE(options_.scheduler.num_stages == 1 ||
                  plan.tokens[static_cast<std::size_t>(slice.token_begin)] != kPendingToken);
    }
    in_flight.push_back(std::move(plan));
    return true;
  }

  // Runs and commits the oldest plan, or abandons all if it fails; returns it.
  StepPlan commit() {
    const StepPlan plan = std::move(in_flight.front());
    in_flight.pop_front();
    if (plan.step % 3 == 0) wake();
    Result<StepResult> result = execute(executor, plan);
    if (result.ok()) {
      for (TokenEvent& event : scheduler.commit(plan, std::move(result).value())) take(event);
    } else {
      ++num_failures;
      in_flight.clear();
      scheduler.abandon_in_flight();
      scheduler.flush_cache();
      EXPECT_TRUE(executor.recover().ok());
    }
    scheduler.check_invariants();
    return plan;
  }

  // Until everything has ended.
  void drain(int prompt_budget = 1 << 20) {
    while (!scheduler.idle()) {
      const bool planned = plan(prompt_budget);
      if (!planned || static_cast<int>(in_flight.size()) >= options_.scheduler.depth) commit();
    }
    EXPECT_EQ(num_alive, 0);
    EXPECT_EQ(num_used_pages(), 0);
    EXPECT_EQ(executor.num_known(), 0);
  }

  void take(TokenEvent& event) {
    Outcome& outcome = outcomes.at(event.id);
    ASSERT_FALSE(outcome.finished) << "an event after the end of " << event.id;
    outcome.tokens.insert(outcome.tokens.end(), event.tokens.begin(), event.tokens.end());
    outcome.num_logprobs += event.logprobs.size();
    outcome.num_prompt_logprobs += event.extras.prompt_logprobs.size();
    outcome.num_routed += event.extras.routed_experts.size();
    outcome.num_key_reports += event.extras.selected_keys.empty() ? 0 : 1;
    if (!event.finished) return;
    outcome.finished = event.finished;
    outcome.usage = event.usage;
    --num_alive;
    check(outcome, event);
  }

  void check(const Outcome& outcome, const TokenEvent& event) const {
    const Request& request = *outcome.request;
    ASSERT_LE(outcome.tokens.size(), outcome.expected.size());
    ASSERT_TRUE(std::equal(outcome.tokens.begin(), outcome.tokens.end(), outcome.expected.begin()))
        << "request " << event.id << " got another answer";
    EXPECT_EQ(event.usage.completion_tokens, static_cast<int>(outcome.tokens.size()));
    EXPECT_EQ(event.usage.prompt_tokens, static_cast<int>(request.prompt.size()));
    EXPECT_LE(event.usage.accepted, event.usage.drafted);
    EXPECT_EQ(outcome.num_logprobs, request.want.top_logprobs >= 0 ? outcome.tokens.size() : 0);
    if (outcome.aborted) {
      EXPECT_EQ(outcome.finished, FinishReason::kCancelled);
      return;
    }
    if (outcome.finished == FinishReason::kError) return;
    EXPECT_EQ(outcome.tokens, outcome.expected);
    const bool stopped = event.stop_id.has_value();
    EXPECT_EQ(outcome.finished, stopped ? FinishReason::kStop : FinishReason::kLength);
    if (stopped) {
      EXPECT_EQ(event.stop_id, outcome.tokens.back());
    }
    EXPECT_EQ(outcome.num_prompt_logprobs,
              request.want.prompt_logprobs >= 0 ? request.prompt.size() - 1 : 0);
    EXPECT_EQ(outcome.num_key_reports, request.want.selected_keys ? 1u : 0u);
    if (request.want.routed_experts && event.usage.drafted == 0) {
      const std::size_t all = request.prompt.size() + outcome.tokens.size() - 1;
      const ExecutorInfo& info = executor.info();
      const auto each = static_cast<std::size_t>(info.num_moe_layers * info.num_experts_per_tok);
      EXPECT_GE(outcome.num_routed,
                (all - static_cast<std::size_t>(event.usage.cached_tokens)) * each);
      EXPECT_LE(outcome.num_routed, all * each);
    }
  }

  const Outcome& outcome(RequestId id) const { return outcomes.at(id); }

  int num_used_pages() const {
    int count = 0;
    for (int replica = 0; replica < options_.scheduler.num_replicas; ++replica)
      count += scheduler.cache(replica).num_used_pages();
    return count;
  }

 private:
  SimulationOptions options_;

 public:
  Scheduler scheduler;
  FakeExecutor executor;
  std::deque<StepPlan> in_flight;
  std::unordered_map<RequestId, Outcome> outcomes;
  std::vector<std::pair<RequestId, std::uint64_t>> late;  // to be woken
  int num_alive = 0, num_failures = 0;
  int num_empty_parts = 0;  // of a replica in a plan

 private:
  RequestId last_id_ = 0;
};

}  // namespace glint
