#include "runtime/generator.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/seconds.h"
#include "base/str.h"
#include "runtime/model_executor.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;

constexpr RequestId kId = 1;

// The plans of one sequence that owns all pages, in order.
class Plans {
 public:
  Plans(const LoadedModel& model, std::shared_ptr<const Request> request)
      : request_(std::move(request)), pages_(static_cast<std::size_t>(model.kv().num_pages())) {
    std::iota(pages_.begin(), pages_.end(), 0);
  }

  // Prompt tokens [first, first + count).
  StepPlan prompt(int first, int count) {
    StepPlan plan = start();
    const bool last = first + count == static_cast<int>(request_->prompt.size());
    plan.add({.id = kId, .first = first, .sample = last, .max_new = last},
             std::span(request_->prompt).subspan(first, count), pages_);
    return plan;
  }

  // The last token, at `position`, and drafts after it; `max_new` tokens may come.
  StepPlan decode(int position, int num_drafts, int max_new) {
    StepPlan plan = start();
    const std::vector<TokenId> pending(static_cast<std::size_t>(1 + num_drafts), kPendingToken);
    plan.add({.id = kId,
              .first = position,
              .num_drafts = num_drafts,
              .sample = true,
              .max_new = max_new},
             pending, pages_);
    return plan;
  }

 private:
  StepPlan start() {
    StepPlan plan = {.step = step_++};
    if (plan.step == 0) plan.started.push_back(request_);
    return plan;
  }

  std::shared_ptr<const Request> request_;
  std::vector<PageId> pages_;
  std::uint64_t step_ = 0;
};

// The answer as it grows.
struct Answer {
  std::vector<TokenId>& tokens;
  const GenerateOptions& options;
  const OnToken& on_token;
  GenerateStats& stats;

  // Takes what a step sampled; false when the answer ends with it or inside it.
  Result<bool> take(const StepResult::Sampled& sampled) {
    if (sampled.failure != SliceFailure::kNone) {
      return invalid("the model's logits are not numbers; its weights or caches are damaged");
    }
    stats.drafted += sampled.drafted;
    stats.accepted += static_cast<int>(sampled.tokens.size()) - 1;
    for (std::size_t i = 0; i < sampled.tokens.size(); ++i) {
      const TokenId token = sampled.tokens[i];
      if (sampled.stop_id && i + 1 == sampled.tokens.size()) {
        stats.reason = FinishReason::kStop;
        return false;
      }
      tokens.push_back(token);
      ++stats.completion_tokens;
      if (!on_token(token, options.want_logprobs ? sampled.logprobs[i].logprob : 0.0f)) {
        stats.reason = FinishReason::kCancelled;
        return false;
      }
    }
    return !sampled.finished;
  }
};

}  // namespace

Result<GenerateStats> generate(LoadedModel& model, std::vector<TokenId>& tokens, int* num_cached,
                               const GenerateOptions& options, const OnToken& on_token) {
  GLINT_TRY_STATUS(validate(options.sampling));
  if (tokens.empty()) return invalid("the prompt is empty; give at least one token");
  GLINT_TRY_STATUS(check_token_ids("the prompt", tokens, model.config().vocab_size));
  const int prompt = static_cast<int>(tokens.size());
  // Whole pages may hold more than the model has positions.
  const std::int64_t cached = std::int64_t{model.kv().num_pages()} * kPageSize - options.num_drafts;
  const auto context = static_cast<int>(std::min(cached, model.config().max_position_embeddings));
  const int room = context - prompt;
  if (room < 1) {
    return invalid(str("the prompt has ", prompt,
                       " tokens and leaves no room for an answer in a context of ", context,
                       " tokens"));
  }
  const int budget = std::min(options.max_tokens, room);
  GenerateStats stats = {.prompt_tokens = prompt};
  if (budget == 0) return stats;

  ModelExecutor executor(
      model,
      {.max_drafts = options.num_drafts, .num_token_ids = options.num_token_ids, .max_running = 1});
  Plans plans(model, std::make_shared<Request>(
                         Request{.id = kId,
                                 .prompt = tokens,
                                 .sampling = options.sampling,
                                 .max_tokens = budget,
                                 .stop_ids = options.stop_ids,
                                 .want = {.top_logprobs = options.want_logprobs ? 0 : -1}}));
  Answer answer = {tokens, options, on_token, stats};
  const auto start = Clock::now();
  // With drafts, the last cached row of the MTP layer is of another next token, perhaps.
  int computed = std::max(0, *num_cached - (options.num_drafts > 0 ? 1 : 0));
  stats.cached_tokens = computed;
  StepResult result;
  while (computed < prompt) {
    const int count = std::min(options.chunk, prompt - computed);
    GLINT_TRY(result, execute(executor, plans.prompt(computed, count)));
    computed += count;
    if (computed == prompt || !options.goes_on || options.goes_on()) continue;
    *num_cached = stats.prompt_tokens = computed;
    stats.reason = FinishReason::kCancelled;
    stats.prefill_s = seconds_since(start);
    return stats;
  }
  GLINT_TRY(bool going, answer.take(result.sampled[0]));
  stats.prefill_s = seconds_since(start);
  const auto decode_start = Clock::now();
  while (going) {
    const int left = budget - stats.completion_tokens;
    const int num_drafts = std::min(options.num_drafts, left - 1);
    GLINT_TRY(result, execute(executor, plans.decode(computed, num_drafts, left)));
    computed += static_cast<int>(result.sampled[0].tokens.size());
    GLINT_TRY(going, answer.take(result.sampled[0]));
  }
  *num_cached = std::min(computed, static_cast<int>(tokens.size()));
  stats.decode_s = seconds_since(decode_start);
  return stats;
}

}  // namespace glint
