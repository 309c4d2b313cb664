// The routes that need the tokenizer and the template alone: /tokenize, /detokenize,
// /apply-template, /v1/messages/count_tokens.
#include <limits>

#include "base/str.h"
#include "server/dialects/anthropic.h"
#include "server/dialects/openai_request.h"
#include "server/dialects/responses_api.h"
#include "server/plain_content.h"
#include "server/prepare.h"
#include "server/server_core.h"

namespace glint {
namespace {

// Limits of one request: a token takes some ten times its own size in an answer.
constexpr std::size_t kMaxTextBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxTokens = std::size_t{1} << 21;
constexpr std::size_t kMaxTexts = 4096;  // an empty one has no bytes and no tokens, yet costs

ApiError too_much(const char* what, std::size_t found, std::size_t most) {
  return {.status = 413,
          .message = str("the request has ", found, " ", what, "; one may have ", most)};
}

struct TokenizeRequest {
  ApiRequest api;
  bool return_strings = false;
};

// {"prompt": ...} or {"messages": ...}
void read_tokenize(RequestReader& r, TokenizeRequest& request, const ParseContext& context) {
  request.api = default_request(Api::kCompletions, context);
  r.text("model", request.api.model);
  const bool is_chat = r.find("messages") != nullptr;
  if (is_chat || !r.reading()) read_conversation(r, request.api, context);
  if (!is_chat) {
    read_prompts(r, "prompt", request.api, context, kMaxTexts, PromptKind::kText);
    if (r.reading()) r.require("prompt");
  }
  if (is_chat) request.api.encoding.add_special_tokens = false;
  r.boolean("add_special_tokens", request.api.encoding.add_special_tokens);
  r.boolean("return_token_strs", request.return_strings);
}

Json strings_of(const std::vector<TokenId>& ids, const TokenNames& names) {
  Json::Array out;
  for (const TokenId id : ids) out.push_back(names.text(id));
  return out;
}

void tokenize(ServerCore& core, const Json& json, Reply reply) {
  const Generations& g = *core.generations;
  TokenizeRequest request;
  ApiStatus status =
      read_body(json, [&](RequestReader& r) { read_tokenize(r, request, g.parse_context()); });
  if (status.ok()) status = g.check_model(request.api.model);
  if (!status.ok()) return reply.fail(status.error());
  std::vector<std::string> texts;
  if (request.api.chat) {
    auto prompt = render_chat(request.api, g.model());
    if (!prompt.ok()) return reply.fail(prompt.error());
    texts.push_back(std::move(prompt).value());
  }
  for (const Prompt& prompt : request.api.prompts) texts.push_back(prompt.text);
  Json::Array tokens, counts, strings;
  request.api.turn.cancelled = [&reply] { return reply.gone(); };
  const EncodeOptions options = encode_options(request.api);
  std::size_t bytes = 0, num_tokens = 0;
  for (const std::string& text : texts) bytes += text.size();
  if (bytes > kMaxTextBytes) return reply.fail(too_much("bytes of text", bytes, kMaxTextBytes));
  for (const std::string& text : texts) {
    if (reply.gone()) return;
    auto ids = g.model().tokenizer.encode(text, options);
    if (!ids.ok()) return reply.fail(api_error(ids.error()));
    num_tokens += ids.value().size();
    if (num_tokens > kMaxTokens) return reply.fail(too_much("tokens", num_tokens, kMaxTokens));
    tokens.push_back(ids_json(ids.value()));
    counts.push_back(static_cast<std::int64_t>(ids.value().size()));
    if (request.return_strings) strings.push_back(strings_of(ids.value(), g.names()));
  }
  const auto one_or_all = [&](Json::Array& all) {
    return request.api.batch ? Json(std::move(all)) : std::move(all[0]);
  };
  Json out = Json::Object{{"count", one_or_all(counts)},
                          {"max_model_len", core.config.max_model_len},
                          {"tokens", one_or_all(tokens)}};
  if (request.return_strings) out.set("token_strs", one_or_all(strings));
  reply.respond(out);
}

struct DetokenizeRequest {
  std::string model;
  std::vector<std::vector<TokenId>> lists;
  bool batch = false;
  bool skip_special = false;
  bool return_strings = false;
};

void read_detokenize(RequestReader& r, DetokenizeRequest& request, const ParseContext& context) {
  r.text("model", request.model);
  r.boolean("skip_special_tokens", request.skip_special);
  r.boolean("return_token_strs", request.return_strings);
  if (const Json* tokens = r.find("tokens"); tokens && *tokens == Json(Json::Array{})) {
    request.lists.emplace_back();  // the empty text
    return;
  }
  ApiRequest scratch;
  read_prompts(r, "tokens", scratch, context, kMaxTexts, PromptKind::kTokens);
  r.require("tokens");
  request.batch = scratch.batch;
  for (Prompt& prompt : scratch.prompts) request.lists.push_back(std::move(*prompt.tokens));
}

void detokenize(ServerCore& core, const Json& json, Reply reply) {
  const Generations& g = *core.generations;
  DetokenizeRequest request;
  ApiStatus status =
      read_body(json, [&](RequestReader& r) { read_detokenize(r, request, g.parse_context()); });
  if (status.ok()) status = g.check_model(request.model);
  if (!status.ok()) return reply.fail(status.error());
  const auto num_tokens = static_cast<std::size_t>(count_tokens(request.lists));
  if (num_tokens > kMaxTokens) return reply.fail(too_much("tokens", num_tokens, kMaxTokens));
  Json::Array texts, strings;
  for (const std::vector<TokenId>& ids : request.lists) {
    if (reply.gone()) return;
    texts.push_back(g.model().tokenizer.decode(ids, request.skip_special));
    if (request.return_strings) strings.push_back(strings_of(ids, g.names()));
  }
  const Json text = request.batch ? Json(texts) : texts[0];
  Json out = Json::Object{{"prompt", text}, {"text", text}};
  if (request.return_strings) out.set("token_strs", request.batch ? Json(strings) : strings[0]);
  reply.respond(std::move(out));
}

void apply_template(ServerCore& core, const Json& json, Reply reply) {
  const Generations& g = *core.generations;
  const auto request = parse_request(json, Api::kChat, read_conversation, g.parse_context());
  if (!request.ok()) return reply.fail(request.error());
  const auto prompt = render_chat(request.value(), g.model());
  if (!prompt.ok()) return reply.fail(prompt.error());
  reply.respond(Json::Object{{"prompt", without_marks(prompt.value())}});
}

// How many tokens the prompt of a conversation has.
void count_tokens(ServerCore& core, const Json& json, Api api, ReadRequest read, Reply reply) {
  const Generations& g = *core.generations;
  auto parsed = parse_request(json, api, read, g.parse_context());
  if (!parsed.ok()) return reply.fail(parsed.error());
  ApiRequest request = std::move(parsed).value();
  request.turn.cancelled = [&reply] { return reply.gone(); };
  ApiStatus status = g.check_model(request.model);
  Prepared prepared;
  constexpr int kAnyLength = std::numeric_limits<int>::max();
  if (status.ok()) status = encode_prompts(request, g.model(), kAnyLength, prepared);
  if (!status.ok()) return reply.fail(status.error());
  Json out = Json::Object{};
  if (api == Api::kResponses) out.set("object", "response.input_tokens");
  out.set("input_tokens", static_cast<std::int64_t>(prepared.prompts[0].size()));
  reply.respond(out);
}

void count_messages(ServerCore& core, const Json& json, Reply reply) {
  count_tokens(core, json, Api::kMessages, read_anthropic_count, std::move(reply));
}

void count_responses(ServerCore& core, const Json& json, Reply reply) {
  count_tokens(core, json, Api::kResponses, read_responses_input, std::move(reply));
}

using TextHandler = void (*)(ServerCore&, const Json&, Reply);

Route text_route(ServerCore& core, const char* path, const char* summary, TextHandler handler,
                 std::function<void(RequestReader&)> describe) {
  return {.method = "POST",
          .path = path,
          .summary = summary,
          .handle = [&core, handler](const HttpRequest&, const Json& json,
                                     Reply reply) { handler(core, json, std::move(reply)); },
          .describe = std::move(describe)};
}

}  // namespace

void add_text_routes(ServerCore& core, std::vector<Route>& routes) {
  const auto describe_tokenize = [&core](RequestReader& r) {
    TokenizeRequest scratch;
    read_tokenize(r, scratch, {core.config, kAnyVocab});
  };
  const auto describe_detokenize = [&core](RequestReader& r) {
    DetokenizeRequest scratch;
    read_detokenize(r, scratch, {core.config, kAnyVocab});
  };
  const auto describe_template = [&core](RequestReader& r) {
    ApiRequest scratch;
    read_conversation(r, scratch, {core.config, kAnyVocab});
    r.require("messages");
  };
  const auto describe_count = [&core](RequestReader& r) {
    ApiRequest scratch;
    read_anthropic_count(r, scratch, {core.config, kAnyVocab});
  };
  for (const char* path : {"/tokenize", "/v1/tokenize"})
    routes.push_back(text_route(core, path, "The tokens of a text or a conversation.", tokenize,
                                describe_tokenize));
  for (const char* path : {"/detokenize", "/v1/detokenize"})
    routes.push_back(
        text_route(core, path, "The text of tokens.", detokenize, describe_detokenize));
  for (const char* path : {"/apply-template", "/v1/apply-template"})
    routes.push_back(text_route(core, path, "The prompt that a conversation becomes.",
                                apply_template, describe_template));
  const auto describe_input = [&core](RequestReader& r) {
    ApiRequest scratch;
    read_responses_input(r, scratch, {core.config, kAnyVocab});
  };
  routes.push_back(text_route(core, "/v1/messages/count_tokens",
                              "How many tokens messages have (Anthropic's API).", count_messages,
                              describe_count));
  routes.push_back(text_route(core, "/v1/responses/input_tokens",
                              "How many tokens items have (OpenAI's Responses).", count_responses,
                              describe_input));
}

}  // namespace glint
