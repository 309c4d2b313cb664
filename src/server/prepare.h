// From what a client asked (ApiRequest) to what the engine runs: templates, tokens, limits,
// constraints. Pure: it runs on any thread, and nothing is submitted here.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/api_types.h"
#include "server/errors.h"
#include "text/answer/delta_parser.h"
#include "text/grammar/grammar_service.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {

// The parts of a model that preparing reads; shared by threads.
struct TextModel {
  TextModel(Tokenizer tokenizer, ChatTemplate chat_template, std::vector<TokenId> stop_ids,
            int vocab_size, const GrammarServiceOptions& grammar_options);

  const Tokenizer tokenizer;
  const ChatTemplate chat_template;
  const std::vector<TokenId> stop_ids;
  const int vocab_size;  // the model's
  const std::unique_ptr<GrammarService> grammars;
  // The longest token's; a text has at least (its bytes / max_token_bytes) tokens.
  std::size_t max_token_bytes = 1;
  std::vector<TokenId> call_tokens;  // that begin a call: masked by tool_choice "none"
  const std::string vocabulary;      // Tokenizer::vocabulary_checksum()
};

struct Prepared {
  std::vector<Shared<std::vector<TokenId>>> prompts = {};  // those of the requests
  std::vector<std::string> prompt_texts = {};              // with echo
  DeltaOptions deltas = {};
  // One for each prompt and choice, choices of a prompt together. Ids are 0 and constraints not
  // set: see constraint_of.
  std::vector<Request> requests = {};
  bool constrained = false;    // the client asked for a form of its answer
  bool needs_grammar = false;  // the request's own, compiled; then `grammar` is to be set
  std::shared_ptr<const CompiledGrammar> grammar = {};
  bool after_reasoning = false;  // the grammar begins after </think>
  bool forbid_calls = false;
  std::optional<int> thinking_budget = {};
  std::vector<bool> thinking = {};  // of requests: the answer begins with a thought of that budget
  bool hide_answer = false;         // max_tokens 0: the prompt alone was wanted
  int max_tokens = 0;               // of the longest answer that there may be
};

// The prompt of a conversation, as text; with plain_content it holds marks (plain_content.h).
Result<std::string, ApiError> render_chat(const ApiRequest& request, const TextModel& model);

// How the prompt of such a request becomes tokens.
EncodeOptions encode_options(const ApiRequest& request);

// Tokens of request.prompts or of the rendered conversation. Refuses what cannot fit in
// `max_model_len` before it takes the time to encode it.
ApiStatus encode_prompts(const ApiRequest& request, const TextModel& model, int max_model_len,
                         Prepared& out);

// Puts the tokens of request.bad_words into its sampling: each word alone and after a blank, which
// are different tokens. Where they are those of `first`, whose are there, both share them.
Status encode_bad_words(ApiRequest& request, const ApiRequest& first, const TextModel& model);

// Everything but the grammar, with the bad words as they are in request.sampling. `seed` is for
// requests that bring none. A row chooses `row_experts`, in all layers together.
Result<Prepared, ApiError> prepare(const ApiRequest& request, const TextModel& model,
                                   const ServerConfig& config, std::uint64_t seed, int row_experts);

// The field of a request that its grammar comes from, and why there is none, as its client is told.
std::string grammar_field(const ApiRequest& request);
ApiError grammar_error(const Error& error, const std::string& field);

// A new constraint for requests[index]; null if there is none.
std::shared_ptr<TokenConstraint> constraint_of(const Prepared& prepared, const TextModel& model,
                                               std::size_t index);

}  // namespace glint
