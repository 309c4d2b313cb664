#include "rl/rollout.h"

#include <algorithm>

#include "base/queue.h"
#include "base/str.h"
#include "engine/engine.h"
#include "runtime/generator.h"
#include "runtime/model_executor.h"

namespace glint {
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
  const int pages = running * (pages_for(static_cast<int>(longest), 0) + 1);
  GLINT_TRY_STATUS(model.reserve_pages(pages));

  ModelExecutor executor(model, {.num_token_ids = options.num_token_ids});
  Queue<std::vector<TokenEvent>> events;
  Engine engine({.scheduler = {.max_running = running,
                               .max_waiting = static_cast<int>(prompts.size()),
                               .max_seq_len = static_cast<int>(longest)},
                 .cache = {.num_pages = pages, .page_size = kPageSize},
                 .max_step_slowdown = 0},
                executor, [&](std::vector<TokenEvent> step) { events.push(std::move(step)); });
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    GLINT_TRY_STATUS(engine.submit({.id = i + 1,
                                    .prompt = std::vector<TokenId>(*prompts[i].ids),
                                    .sampling = {.temperature = options.temperature,
                                                 .top_p = options.top_p,
                                                 .top_k = options.top_k,
                                                 .seed = prompts[i].seed},
                                    .max_tokens = options.max_tokens,
                                    .stop_ids = std::vector<TokenId>(options.stop_ids),
                                    .want = {.top_logprobs = 0}}));
  }
  std::vector<Rollout> rollouts(prompts.size());
  for (std::size_t left = prompts.size(); left > 0;) {
    const auto step = events.pop();
    int tokens = 0;
    for (const TokenEvent& event : *step) {
      Rollout& rollout = rollouts[event.id - 1];
      rollout.answer.insert(rollout.answer.end(), event.tokens.begin(), event.tokens.end());
      for (const TokenLogprob& one : event.logprobs) rollout.log_probs.push_back(one.logprob);
      tokens += static_cast<int>(event.tokens.size());
      if (!event.finished) continue;
      if (*event.finished == FinishReason::kError) return invalid(event.error);
      rollout.truncated = *event.finished == FinishReason::kLength;
      rollout.cached_tokens = event.usage.cached_tokens;
      --left;
    }
    if (!on_tokens(tokens)) return Error{ErrorCode::kUnavailable, "interrupted"};
  }
  return rollouts;
}

}  // namespace glint
