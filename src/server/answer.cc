#include "server/answer.h"

#include <algorithm>

namespace glint {

const char* openai_finish_reason(const Finish& finish) {
  if (finish.reason == FinishReason::kStop && finish.called_tools) return "tool_calls";
  return name_of(finish.reason);
}

double Choice::mean_logprob() const {
  if (scores.empty()) return 0;
  double sum = 0;
  for (const TokenScore& score : scores) sum += score.logprob.logprob;
  return sum / static_cast<double>(scores.size());
}

Json timings_json(const Answer& answer) {
  // The times of the slowest choice: n choices run at the same time.
  TokenEvent::Usage slowest;
  for (const Choice& choice : answer.choices)
    if (choice.usage.finished_s >= slowest.finished_s) slowest = choice.usage;
  const TokenEvent::Usage& usage = answer.usage;
  const double prompt_s = std::max(slowest.first_token_s - slowest.started_s, 0.0);
  const double answer_s = std::max(slowest.finished_s - slowest.first_token_s, 0.0);
  const auto rate = [](double count, double seconds) {
    return seconds > 0 ? count / seconds : 0.0;
  };
  return Json::Object{
      {"queue_ms", slowest.started_s * 1e3},
      {"cache_n", usage.cached_tokens},
      {"prompt_n", usage.prompt_tokens - usage.cached_tokens},
      {"prompt_ms", prompt_s * 1e3},
      {"prompt_per_second", rate(usage.prompt_tokens - usage.cached_tokens, prompt_s)},
      {"predicted_n", usage.completion_tokens},
      {"predicted_ms", answer_s * 1e3},
      {"predicted_per_second", rate(usage.completion_tokens - 1, answer_s)},
      {"total_ms", slowest.finished_s * 1e3},
      {"draft_n", usage.drafted},
      {"draft_n_accepted", usage.accepted}};
}

}  // namespace glint
