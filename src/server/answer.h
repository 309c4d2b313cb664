// Generated answers, independent of any API: writers (response_writer.h) turn them into bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/shared.h"
#include "engine/request.h"
#include "text/answer/delta_parser.h"

namespace glint {

// Why a choice ended.
struct Finish {
  FinishReason reason = FinishReason::kStop;
  std::optional<std::string> stop_string = {};  // the one that ended it
  std::optional<TokenId> stop_id = {};          // likewise; not one of the model's own
  bool on_stop_token = false;                   // the answer's last, the model's own or another
  bool called_tools = false;                    // unless it had to: finish_reason "tool_calls"
};
// "stop", "length", "tool_calls", "abort", "error": OpenAI's finish_reason.
const char* openai_finish_reason(const Finish& finish);

struct TokenScore {
  TokenId id = 0;
  TokenLogprob logprob = {};
  bool of_content = true;  // neither reasoning nor a call
};

// New output of one choice.
struct Piece {
  int choice = 0;
  std::vector<Delta> deltas = {};
  std::vector<TokenId> tokens = {};     // all that were sampled, the stop token included
  std::vector<TokenScore> scores = {};  // if wanted; without the stop token
  std::optional<Finish> finish = {};
};

struct Choice {
  int index = 0;
  int prompt = 0;  // the index of its prompt
  ParsedAnswer parsed = {};
  std::vector<Delta> deltas = {};  // the same in order, unless it is streamed
  std::vector<TokenId> tokens = {};
  std::vector<TokenScore> scores = {};
  std::vector<TokenLogprob> prompt_scores = {};  // from the second prompt token on
  std::vector<std::uint16_t> routed_experts = {};
  std::vector<Extras::KeyRead> selected_keys = {};
  Finish finish = {};
  int reasoning_tokens = 0;
  TokenEvent::Usage usage = {};

  // The average log-probability of a token: what best_of chooses by.
  double mean_logprob() const;
  std::string_view text() const { return parsed.content ? *parsed.content : std::string_view(); }
};

struct Answer {
  std::vector<Shared<std::vector<TokenId>>> prompts = {};
  std::vector<std::string> prompt_texts = {};  // of completions with echo
  std::vector<Choice> choices = {};
  TokenEvent::Usage usage = {};  // of all prompts and choices; no times
  int reasoning_tokens = 0;      // of its completion tokens
};

// {"queue_ms": ..., "prompt_n": ...}: what a request that sets return_timings gets.
Json timings_json(const Answer& answer);

}  // namespace glint
