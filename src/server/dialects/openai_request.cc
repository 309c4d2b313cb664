#include "server/dialects/openai_request.h"

#include "base/str.h"
#include "server/dialects/chat_messages.h"
#include "server/dialects/sampling_fields.h"
#include "server/dialects/thinking_fields.h"
#include "server/dialects/tool_fields.h"
#include "server/dialects/unsupported_fields.h"

namespace glint {
namespace {

// Fails with "holds 2000, which is no token id".
Result<std::vector<TokenId>> token_list(const Json& json, TokenId vocab_size) {
  std::vector<TokenId> tokens;
  tokens.reserve(json.as_array().size());
  for (const Json& item : json.as_array()) {
    if (!item.is_int() || item.as_int() < 0 || item.as_int() >= vocab_size)
      return invalid(str("holds ", item.is_number() ? dump_json(item) : item.kind(),
                         ", which is no token id"));
    tokens.push_back(static_cast<TokenId>(item.as_int()));
  }
  return tokens;
}

Json prompt_schema() {
  const Json text = Json::Object{{"type", "string"}};
  const Json tokens =
      Json::Object{{"type", "array"}, {"items", Json::Object{{"type", "integer"}, {"minimum", 0}}}};
  const auto list = [](const Json& items) {
    return Json(Json::Object{{"type", "array"}, {"items", items}, {"minItems", 1}});
  };
  return Json::Object{{"anyOf", Json::Array{text, tokens, list(text), list(tokens)}}};
}

// The log-probabilities that a chat wants: {"logprobs": true, "top_logprobs": 5}.
void read_chat_logprobs(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  bool wanted = false;
  std::optional<int> top;
  r.boolean("logprobs", wanted);
  read_num_logprobs(r, "top_logprobs", top, context);
  if (top && *top > 0 && !wanted && r.reading())
    return r.fail("top_logprobs", "top_logprobs is given, but logprobs is not true");
  if (wanted) request.facts.top_logprobs = top.value_or(0);
  read_prompt_logprobs(r, request, context);
}

void read_counts(RequestReader& r, ApiRequest& request) {
  r.integer("n", request.n, {1, kMaxChoices});
  request.best_of = request.n;
  r.integer("best_of", request.best_of, {1, kMaxChoices});
  if (request.best_of < request.n)
    r.fail("best_of", str("best_of is ", request.best_of, ", less than n, which is ", request.n));
}

}  // namespace

void read_prompts(RequestReader& r, const char* name, ApiRequest& request,
                  const ParseContext& context, std::size_t most, PromptKind kind) {
  r.describe(name, prompt_schema());
  const Json* member = r.find(name);
  if (!member) return;
  const auto wrong = [&](const std::string& why) {
    const std::string tokens = str("token ids, or lists of token ids below ", context.vocab_size);
    r.fail(name, str(r.path(name), " ", why, "; expected ",
                     kind == PromptKind::kTokens ? tokens
                     : kind == PromptKind::kText ? "a text or a list of texts"
                                                 : "a text, a list of texts, " + tokens));
  };
  if (member->is_string()) {
    if (kind == PromptKind::kTokens) return wrong("is a text");
    request.prompts.push_back({.text = member->as_string()});
    return;
  }
  if (!member->is_array()) return wrong(str("is ", member->kind()));
  const Json::Array& items = member->as_array();
  if (items.empty()) return wrong("is empty");
  if (items[0].is_number()) {
    if (kind == PromptKind::kText) return wrong("holds token ids");
    auto tokens = token_list(*member, context.vocab_size);
    if (!tokens.ok()) return wrong(tokens.error().message);
    request.prompts.push_back({.tokens = std::move(tokens).value()});
    return;
  }
  if (!r.is_within(name, *member, most, "items")) return;
  request.batch = true;
  for (const Json& item : items) {
    if (item.is_string() && kind != PromptKind::kTokens) {
      request.prompts.push_back({.text = item.as_string()});
    } else if (item.is_array() && kind != PromptKind::kText) {
      auto tokens = token_list(item, context.vocab_size);
      if (!tokens.ok()) return wrong(tokens.error().message);
      request.prompts.push_back({.tokens = std::move(tokens).value()});
    } else {
      return wrong(str("holds ", item.kind()));
    }
  }
}

void read_completion(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  r.text("model", request.model);
  refuse_unsupported(r, Api::kCompletions);
  read_prompts(r, "prompt", request, context);
  r.require("prompt");
  r.boolean("add_special_tokens", request.encoding.add_special_tokens);
  read_streaming(r, request);
  r.integer("max_tokens", request.end.max_tokens);
  read_counts(r, request);
  r.boolean("echo", request.echo);
  std::optional<int> logprobs;
  r.integer("logprobs", logprobs, {0, context.config.max_logprobs});
  if (logprobs) request.facts.top_logprobs = *logprobs;
  read_prompt_logprobs(r, request, context);
  read_routed_experts(r, request);
  if (const Json* suffix = r.find("suffix"); suffix && *suffix != Json(""))
    r.fail("suffix", "suffix is not supported: the model writes forwards only");
  read_sampling(r, request, context);
  read_limits(r, request, context);
  read_constraint(r, request);
  read_prompt_thinking(r, request);
  check_choices(r, request);
  if (!r.reading() || !r.ok()) return;
  if (request.end.max_tokens == 0 && !request.echo)
    return r.fail("max_tokens", "max_tokens is 0; without echo it must be at least 1");
  if (request.echo && request.facts.top_logprobs >= 0)
    request.facts.prompt_logprobs =
        std::max(request.facts.prompt_logprobs, request.facts.top_logprobs);
}

void read_conversation(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  refuse_unsupported(r, Api::kChat);
  ChatInput& chat = begin_chat(request, context);
  read_messages(r, chat);
  read_tools(r, request);
  read_thinking(r, request);
  r.boolean("add_generation_prompt", chat.add_generation_prompt);
  r.boolean("continue_final_message", chat.continue_final_message);
  if (chat.continue_final_message && chat.add_generation_prompt && r.find("add_generation_prompt"))
    r.fail("continue_final_message",
           "continue_final_message and add_generation_prompt cannot both be true");
  if (chat.continue_final_message && !chat.messages.empty() &&
      chat.messages.back().find("tool_calls"))
    r.fail("continue_final_message",
           "continue_final_message is true, but the last message has tool_calls, which end it");
}

void read_chat(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  r.text("model", request.model);
  read_conversation(r, request, context);
  r.require("messages");
  r.boolean("add_special_tokens", request.encoding.add_special_tokens);
  read_streaming(r, request);
  r.integer("max_tokens", request.end.max_tokens, {1});
  r.integer("max_completion_tokens", request.end.max_tokens, {1});
  read_counts(r, request);
  read_chat_logprobs(r, request, context);
  read_routed_experts(r, request);
  r.boolean("echo", request.echo);
  r.boolean("include_reasoning", request.form.include_reasoning);
  r.boolean("separate_reasoning", request.form.parse_reasoning);
  read_sampling(r, request, context);
  read_limits(r, request, context);
  read_constraint(r, request);
  check_choices(r, request);
  check_tool_choice(r, request);
}

Result<ApiRequest, ApiError> parse_request(const Json& body, Api api, ReadRequest read,
                                           const ParseContext& context) {
  ApiRequest out = default_request(api, context);
  GLINT_TRY_STATUS(read_body(body, [&](RequestReader& r) { read(r, out, context); }));
  return out;
}

}  // namespace glint
