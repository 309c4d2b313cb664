// ApiRequest: what any of the APIs asks for, in one form. The parsers of the dialects (OpenAI's,
// Anthropic's, SGLang's) fill it; prepare.h makes engine requests of it; writers answer it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/shared.h"
#include "engine/request.h"
#include "server/server_config.h"
#include "text/grammar/grammar.h"

namespace glint {

// kKeys: the positions that sparse attention read, for the page.
enum class Api { kCompletions, kChat, kResponses, kMessages, kGenerate, kKeys };

// Text, or tokens as they are.
struct Prompt {
  std::string text = {};
  std::optional<std::vector<TokenId>> tokens = {};
};

struct ToolUse {
  enum class Choice { kAuto, kNone, kRequired, kNamed };
  Shared<std::vector<ToolSpec>> specs = {};
  Choice choice = Choice::kAuto;
  std::string name = {};                  // of kNamed
  std::vector<std::string> allowed = {};  // the only ones that may be called; empty: all
  bool parallel = true;
  bool strict = false;  // a tool asked that its schema be followed
};

// Whether it is worth going on with a request; empty: always.
using Cancelled = std::function<bool()>;

// A conversation as templates expect it.
struct ChatInput {
  Json::Array messages = {};
  Json tools = {};  // as given; null: none
  Json kwargs = Json(Json::Object{});
  bool add_generation_prompt = true;
  bool continue_final_message = false;
};

// Answers of one request: its prompts, times n or best_of.
inline constexpr int kMaxChoices = 128;

// The end of an answer.
struct AnswerEnd {
  std::optional<int> max_tokens = {};
  std::optional<int> default_max_tokens = {};  // without max_tokens; none: the rest of the context
  int min_tokens = 0;
  std::optional<int> thinking_budget = {};  // tokens of the thought; then it is ended
  std::vector<std::string> stop = {};
  std::vector<TokenId> stop_ids = {};
  bool include_stop = false;
  bool ignore_eos = false;
};

// Numbers about tokens that are wanted beside the text.
struct TokenFacts {
  int top_logprobs = -1;     // as Want's
  int prompt_logprobs = -1;  // as Want's
  int logprob_start = -1;    // of /generate: prompt log-probabilities from here on; -1: none
  bool routed_experts = false;
  bool keys = false;  // the positions that the last prompt token attended to
};

// The form of an answer.
struct AnswerForm {
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // usage in every chunk
  int stream_interval = 1;
  bool return_token_ids = false;
  bool tokens_as_ids = false;  // "token_id:5" names a token of log-probabilities
  bool return_timings = false;
  bool parse_reasoning = true;    // false: thoughts stay in the content
  bool include_reasoning = true;  // false: thoughts are left out
  bool skip_special = true;
  // Fields that an answer of /v1/responses repeats, as JSON: a text is a small part of its value's
  // size.
  std::string echoed = {};
};

// From text to tokens.
struct Encoding {
  bool plain_content = false;       // special tokens of users and tools are text
  bool add_special_tokens = false;  // what the tokenizer puts around a text
};

// A request among others.
struct Turn {
  int priority = 0;                         // lower first
  std::uint64_t cache_salt = 0;             // of the texts that a client gives; 0: none
  std::string rid = {};                     // a name of the client's own, for /abort_request
  std::string id = {};                      // the answer's; empty: it gets one
  Cancelled cancelled = {};                 // asked while the prompt is prepared
  std::shared_ptr<const void> ticket = {};  // lives as long as the request
};

struct ApiRequest {
  Api api = Api::kCompletions;
  std::string model = {};

  std::vector<Prompt> prompts = {};  // of completions and generate
  bool batch = false;                // they came as a list, or this is one of a list
  int first_choice = 0;              // of one of a list: how many choices those before it have
  std::optional<ChatInput> chat = {};
  ToolUse tools = {};
  Encoding encoding = {};

  SamplingParams sampling = {};
  std::optional<std::uint64_t> seed = {};
  AnswerEnd end = {};
  std::vector<std::string> bad_words = {};
  std::shared_ptr<const GrammarSpec> grammar = {};
  std::string grammar_field = {};  // that asks for it; calls are asked for by "tools"
  int n = 1;
  int best_of = 1;  // at least n
  bool echo = false;
  TokenFacts facts = {};
  AnswerForm form = {};
  Turn turn = {};
};

// A vocabulary for describing requests while there is no model yet.
inline constexpr TokenId kAnyVocab = 1 << 24;

// Facts about the server that parsing needs.
struct ParseContext {
  const ServerConfig& config;
  TokenId vocab_size = 0;
};

// A request with the server's defaults.
ApiRequest default_request(Api api, const ParseContext& context);

}  // namespace glint
