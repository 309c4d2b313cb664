#include "rl/rollout.h"

#include <algorithm>

#include "base/queue.h"
#include "base/str.h"
#include "engine/engine.h"
#include "runtime/generator.h"
#include "runtime/model_executor.h"
#include "train/train_sequence.h"

namespace glint {
namespace {

// Rows of cached tokens did not run for this answer: their experts are those of another answer to
// the same prompt.
void complete_routes(const std::vector<RolloutPrompt>& prompts, std::size_t a_token,
                     std::vector<Rollout>& rollouts) {
  const auto missing = [&](std::size_t i) {
    const std::size_t rows = prompts[i].ids->size() + rollouts[i].answer.size() - 1;
    return rows * a_token - rollouts[i].routes.size();
  };
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::size_t count = missing(i);
    for (std::size_t j = 0; count > 0 && j < prompts.size(); ++j) {
      if (prompts[j].ids != prompts[i].ids || missing(j) > 0) continue;
      const auto first = rollouts[j].routes.begin();
      std::vector<std::int32_t> whole(first, first + static_cast<std::ptrdiff_t>(count));
      whole.insert(whole.end(), rollouts[i].routes.begin(), rollouts[i].routes.end());
      rollouts[i].routes = std::move(whole);
      break;
    }
    GLINT_CHECK(missing(i) == 0, "no answer to a prompt tells the experts of all its tokens");
  }
}

}  // namespace

Result<std::vector<Rollout>> run_rollouts(LoadedModel& model,
                                          const std::vector<RolloutPrompt>& prompts,
                                          const RolloutOptions& options,
                                          const OnRolloutTokens& on_tokens) {
  std::size_t longest = 0;
  for (const RolloutPrompt& prompt : prompts) longest = std::max(longest, prompt.ids->size());
  longest += static_cast<std::size_t>(options.max_tokens);
  if (static_cast<std::int64_t>(longest) > model.config().max_position_embeddings) {
    return invalid(str("a prompt and an answer may have ", longest, " tokens; the model has ",
                       model.config().max_position_embeddings, " positions"));
  }
  const int running = std::min(options.max_running, static_cast<int>(prompts.size()));
  // A page more each: a step may write beyond an answer's end.
  const int pages = running * (pages_for(static_cast<int>(longest), options.num_drafts) + 1);
  GLINT_TRY_STATUS(model.reserve_pages(pages));

  ModelExecutor executor(
      model, {.max_drafts = options.num_drafts, .num_token_ids = options.num_token_ids});
  Queue<std::vector<TokenEvent>> events;
  Engine engine({.scheduler = {.max_running = running,
                               .max_waiting = static_cast<int>(prompts.size()),
                               .max_seq_len = static_cast<int>(longest),
                               .max_drafts = options.num_drafts},
                 .cache = {.num_pages = pages, .page_size = kPageSize},
                 .max_step_slowdown = 0},
                executor, [&](std::vector<TokenEvent> step) { events.push(std::move(step)); });
  // One for the answers to one prompt, which follow each other.
  std::uint64_t salt = 0;
  const auto salt_of = [&](std::size_t i) {
    return salt += i == 0 || prompts[i].ids != prompts[i - 1].ids;
  };
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    GLINT_TRY_STATUS(
        engine.submit({.id = i + 1,
                       .prompt = std::vector<TokenId>(*prompts[i].ids),
                       .sampling = {.temperature = options.temperature,
                                    .top_p = options.top_p,
                                    .top_k = options.top_k,
                                    .seed = prompts[i].seed},
                       .max_tokens = options.max_tokens,
                       .stop_ids = std::vector<TokenId>(options.stop_ids),
                       // Another prompt's answers have their experts elsewhere.
                       .cache_salt = options.routes ? salt_of(i) : 0,
                       .want = {.top_logprobs = 0, .routed_experts = options.routes}}));
  }
  std::vector<Rollout> rollouts(prompts.size());
  for (std::size_t left = prompts.size(); left > 0;) {
    const auto step = events.pop();
    int tokens = 0;
    for (const TokenEvent& event : *step) {
      Rollout& rollout = rollouts[event.id - 1];
      rollout.answer.insert(rollout.answer.end(), event.tokens.begin(), event.tokens.end());
      for (const TokenLogprob& one : event.logprobs) rollout.log_probs.push_back(one.logprob);
      const auto& experts = event.extras.routed_experts;
      rollout.routes.insert(rollout.routes.end(), experts.begin(), experts.end());
      tokens += static_cast<int>(event.tokens.size());
      if (!event.finished) continue;
      if (*event.finished == FinishReason::kError) return invalid(event.error);
      rollout.truncated = *event.finished == FinishReason::kLength;
      rollout.cached_tokens = event.usage.cached_tokens;
      rollout.drafted = event.usage.drafted;
      rollout.accepted = event.usage.accepted;
      --left;
    }
    if (!on_tokens(tokens)) return Error{ErrorCode::kUnavailable, "interrupted"};
  }
  if (options.routes) {
    const auto k = static_cast<std::size_t>(model.config().num_experts_per_tok);
    complete_routes(prompts, static_cast<std::size_t>(num_moe_layers(model.config())) * k,
                    rollouts);
  }
  return rollouts;
}

}  // namespace glint
