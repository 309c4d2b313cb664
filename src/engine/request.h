// Request: what a client wants of the engine, and TokenEvent: what it gets. Tokens in, tokens out:
// text, templates, stop strings and tool calls are the server's business.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/shared.h"
#include "base/token_constraint.h"
#include "base/types.h"
#include "engine/sampling_params.h"

namespace glint {

// Rows may carry so many, as they do biases and bad words.
inline constexpr std::size_t kMaxStopIds = 2048;

// Results that a request asks for besides its tokens.
struct Want {
  int top_logprobs = -1;        // -1: none; 0: of the token itself; n: of the n most likely as well
  int prompt_logprobs = -1;     // as top_logprobs, of the prompt's tokens from the second on (echo)
  bool routed_experts = false;  // the experts that each layer chose, for every row that ran
  bool selected_keys = false;   // the positions that the row of the last prompt token attended to
};

struct Request {
  RequestId id = 0;  // unique among those alive
  Shared<std::vector<TokenId>> prompt = {};
  SamplingParams sampling = {};
  int max_tokens = 0;  // of the answer, at least 1
  int min_tokens = 0;  // no stop id may come before this many
  // Tokens that end the answer and are reported as its last; at most kMaxStopIds.
  Shared<std::vector<TokenId>> stop_ids = {};
  int priority = 0;              // lower runs first; equals in order of submission
  std::uint64_t cache_salt = 0;  // prefixes are shared among equal salts only
  Want want = {};
  std::shared_ptr<TokenConstraint> constraint = {};
};

enum class FinishReason {
  kStop,       // a stop id (or the grammar's end)
  kLength,     // max_tokens or the context
  kCancelled,  // aborted
  kError,      // its logits were not numbers, what it asks for cannot be, or the step failed
};
const char* name_of(FinishReason reason);  // "stop", "length", "abort", "error"

struct TokenLogprob {
  struct Top {
    TokenId id = 0;
    float logprob = 0;
  };
  float logprob = 0;          // natural log, before temperature and filters
  int rank = 0;               // 1: the most likely
  std::vector<Top> top = {};  // most likely first
};

// A step's results for one request, besides tokens. A row that runs again after a preemption is not
// reported again, and rows of rejected drafts are not reported at all.
struct Extras {
  // For the prompt tokens that follow the prompt rows of this step.
  std::vector<TokenLogprob> prompt_logprobs = {};
  // [rows that this step ran, MoE layers, num_experts_per_tok], in row order
  std::vector<std::uint16_t> routed_experts = {};
  // Positions that the last prompt row attended to, and how many layers read each.
  struct KeyRead {
    std::int32_t position = 0;
    std::int32_t num_layers = 0;

    bool operator==(const KeyRead&) const = default;
  };
  std::vector<KeyRead> selected_keys = {};
};

// Progress of one request in one step: never without a token, an extra or an end.
struct TokenEvent {
  RequestId id = 0;
  std::vector<TokenId> tokens = {};         // new ones; a stop id that ended the answer included
  std::vector<TokenLogprob> logprobs = {};  // of the tokens, if wanted
  Extras extras = {};
  std::optional<FinishReason> finished = {};
  std::optional<TokenId> stop_id = {};  // the one that ended it
  std::string error = {};               // of kError: one sentence
  bool impossible = false;              // of kError: the request itself is to blame
  bool unavailable = false;             // of kError: nothing runs; it may later
  // With the end: what it cost. cached_tokens are told with every step.
  struct Usage {
    int prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
    int drafted = 0, accepted = 0;  // draft tokens
    int preemptions = 0;
    // Seconds since submission: first step, first token, end, which also stands for a missing one.
    double started_s = 0, first_token_s = 0, finished_s = 0;
  };
  Usage usage = {};
};

}  // namespace glint
