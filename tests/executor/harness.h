// Requests through scheduler, KV cache and ModelExecutor, step by step, on the bundled model.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "base/str.h"
#include "engine/scheduler.h"
#include "model/backends_under_test.h"
#include "runtime/model_executor.h"

namespace glint {

// Builds with sanitizers look at memory, of which the second page of a sequence is like all after
// it: there answers are short. Others compare long ones.
#ifdef GLINT_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline const std::string kModelDir = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");

inline std::unique_ptr<LoadedModel> load_model(
    const std::string& dir, std::unique_ptr<Backend> backend = best_backend().make(1)) {
  auto model = LoadedModel::load({.dir = dir, .with_mtp = true}, std::move(backend));
  EXPECT_TRUE(model.ok()) << model.error().message;
  return std::move(model).value();
}

// Loaded once; only for tests that leave its weights alone.
inline LoadedModel& tiny() {
  static const std::unique_ptr<LoadedModel> model = load_model(kModelDir);
  return *model;
}

struct HarnessOptions {
  int num_pages = 400;
  int max_drafts = 0;
  bool adapt_drafts = false;
  int max_step_tokens = 512;
  int prompt_budget = 1 << 20;
  int depth = 1;
  int balance_steps = 0;
};

// Everything that one request returned.
struct Outcome {
  std::vector<TokenId> tokens = {};
  std::vector<TokenLogprob> logprobs = {};
  Extras extras = {};
  std::optional<FinishReason> finished = {};
  TokenEvent::Usage usage = {};
};

class Harness {
 public:
  Harness(LoadedModel& model, const HarnessOptions& options)
      : options_(options),
        scheduler_({.num_replicas = model.options().shape.num_sequence_groups(),
                    .max_step_tokens = options.max_step_tokens,
                    .max_seq_len = static_cast<int>(model.config().max_position_embeddings),
                    .depth = options.depth,
                    .num_stages = options.max_drafts > 0 ? 1 : model.options().shape.pp,
                    .max_drafts = options.max_drafts,
                    .adapt_drafts = options.adapt_drafts},
                   {.num_pages = options.num_pages, .match_next_token = options.max_drafts > 0}) {
    EXPECT_TRUE(model.reserve_pages(options.num_pages).ok());
    executor_.emplace(model, ModelExecutorOptions{.max_drafts = options.max_drafts,
                                                  .balance_steps = options.balance_steps});
    executor_->set_wake([this](RequestId id, std::uint64_t number) { late_.push({id, number}); });
  }

  void submit(const Request& request) {
    const Status status = scheduler_.add(request);
    ASSERT_TRUE(status.ok()) << status.error().message;
    outcomes_[request.id];
  }

  // Plans while there is room for plans, then runs one. False when all is done.
  bool step() {
    while (const auto ready = late_.pop_for(0)) scheduler_.wake(ready->first, ready->second);
    while (static_cast<int>(plans_.size()) < options_.depth) {
      StepPlan plan = scheduler_.schedule(options_.prompt_budget);
      if (plan.empty()) break;
      plans_.push_back(std::make_shared<const StepPlan>(std::move(plan)));
    }
    if (plans_.empty()) {
      if (scheduler_.idle()) return false;
      const auto ready = late_.pop();  // all that is left sits out
      scheduler_.wake(ready->first, ready->second);
      return true;
    }
    while (num_launched_ < plans_.size() &&
           static_cast<int>(num_launched_) < executor_->info().depth) {
      executor_->launch(plans_[num_launched_++]);
    }
    const StepResult result = executor_->collect().value();
    for (TokenEvent& event : scheduler_.commit(*plans_.front(), result)) take(event);
    plans_.pop_front();
    --num_launched_;
    return true;
  }

  std::map<RequestId, Outcome> run(const std::vector<Request>& requests) {
    for (const Request& request : requests) submit(request);
    while (step()) {
    }
    for (const auto& [id, outcome] : outcomes_) EXPECT_TRUE(outcome.finished) << id;
    return outcomes_;
  }

  const Outcome& outcome(RequestId id) const { return outcomes_.at(id); }
  ModelExecutor& executor() { return *executor_; }
  Scheduler& scheduler() { return scheduler_; }

 private:
  void take(TokenEvent& event) {
    Outcome& out = outcomes_.at(event.id);
    const auto append = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(out.tokens, event.tokens);
    append(out.logprobs, event.logprobs);
    append(out.extras.prompt_logprobs, event.extras.prompt_logprobs);
    append(out.extras.routed_experts, event.extras.routed_experts);
    append(out.extras.selected_keys, event.extras.selected_keys);
    if (event.finished) out.finished = event.finished, out.usage = event.usage;
  }

  HarnessOptions options_;
  Scheduler scheduler_;
  Queue<std::pair<RequestId, std::uint64_t>> late_;  // whose masks are there now
  std::optional<ModelExecutor> executor_;
  std::deque<std::shared_ptr<const StepPlan>> plans_;
  std::size_t num_launched_ = 0;  // the first ones
  std::map<RequestId, Outcome> outcomes_;
};

inline std::map<RequestId, Outcome> run_all(const std::vector<Request>& requests,
                                            const HarnessOptions& options = {}) {
  return Harness(tiny(), options).run(requests);
}

// Prompts from texts that the model was trained to continue, so that drafts are often right.
std::vector<TokenId> prompt_of(int index, int length);

// Prompt and answer.
std::vector<TokenId> whole(const Request& request, const Outcome& outcome);

// All that requests were answered, bit for bit.
void expect_same(const std::map<RequestId, Outcome>& outcomes,
                 const std::map<RequestId, Outcome>& expected);

// A mix of parameters: greedy, sampled, filtered, penalised.
std::vector<Request> mixed_requests(int count, int prompt_tokens, int max_tokens);

}  // namespace glint
