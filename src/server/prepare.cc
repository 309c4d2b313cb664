#include "server/prepare.h"

#include <algorithm>
#include <limits>

#include "base/random.h"
#include "base/str.h"
#include "server/asked_numbers.h"
#include "server/dialects/chat_messages.h"
#include "server/plain_content.h"
#include "text/grammar/thinking_budget.h"
#include "text/template/jinja/characters.h"

namespace glint {
namespace {

// Ends the text that an answer goes on with: a character that Unicode never assigns.
constexpr std::string_view kEndMark = "\xf4\x8f\xbf\xbf";

// Templates read texts several times. A million tokens are four million bytes or so.
constexpr std::size_t kMaxChatBytes = std::size_t{16} << 20;
// Merging one word takes sixty times its bytes.
constexpr std::size_t kMaxWordBytes = std::size_t{1} << 20;

// An answer that tells of every row of its prompt may find none in the cache: it shares with
// nobody, not even with the body's other answers.
std::uint64_t own_salt(std::uint64_t seed, std::size_t number) {
  const auto draw = philox(seed, number, 1);
  return (std::uint64_t{draw[0]} << 32 | draw[1]) | 1;
}

// How many tokens each answer may have.
Result<int, ApiError> answer_length(const ApiRequest& request, int prompt_tokens, int max_model_len,
                                    int row_experts) {
  const int room = max_model_len - prompt_tokens;
  const int wanted = std::max(1, request.end.max_tokens.value_or(1));
  if (room < 1 || wanted > room) return too_long_error(max_model_len, wanted, prompt_tokens);
  const int unsaid = std::min({room, request.end.default_max_tokens.value_or(room),
                               longest_told_answer(request, prompt_tokens, row_experts)});
  const int length = std::max(1, request.end.max_tokens.value_or(unsaid));
  if (request.end.min_tokens > length) {
    const bool is_generate = request.api == Api::kGenerate;
    const char* name = is_generate ? "sampling_params.min_new_tokens" : "min_tokens";
    return ApiError{.message = str(name, " is ", request.end.min_tokens,
                                   ", but the answer may have ", counted(length, "token")),
                    .param = name};
  }
  return length;
}

DeltaOptions delta_options(const ApiRequest& request, const ServerConfig& config) {
  const bool chat = request.chat.has_value();
  return {
      .parse_reasoning = chat && !config.parsers.reasoning.empty() && request.form.parse_reasoning,
      .parse_tools = chat && !config.parsers.tools.empty() && !request.tools.specs.empty() &&
                     request.tools.choice != ToolUse::Choice::kNone,
      .tools = request.tools.specs,
      .calls_first = request.grammar && request.grammar->instead,
      .stop = request.end.stop,
      .min_tokens = request.end.min_tokens,
      .include_stop = request.end.include_stop,
      .skip_special = request.form.skip_special};
}

Result<std::vector<TokenId>, ApiError> encode_one(const ApiRequest& request,
                                                  const std::string& text, const TextModel& model,
                                                  int max_model_len) {
  const std::size_t at_least = text.size() / model.max_token_bytes;
  if (at_least > static_cast<std::size_t>(max_model_len))
    return too_long_error(
        max_model_len, 1,
        static_cast<int>(std::min<std::size_t>(at_least, std::numeric_limits<int>::max())), true);
  auto tokens = model.tokenizer.encode(text, encode_options(request));
  if (!tokens.ok()) return api_error(tokens.error());
  return std::move(tokens).value();
}

std::size_t count_text(const Json& json) {
  std::size_t bytes = json.is_string() ? json.as_string().size() : 0;
  if (json.is_array())
    for (const Json& item : json.as_array()) bytes += count_text(item);
  if (json.is_object())
    for (const auto& [key, value] : json.as_object()) bytes += key.size() + count_text(value);
  return bytes;
}

// Before the template sees it.
ApiStatus check_chat_size(const ChatInput& chat) {
  std::size_t values = count_values(chat.tools) + count_values(chat.kwargs);
  std::size_t bytes = count_text(chat.tools) + count_text(chat.kwargs);
  for (const Json& message : chat.messages) {
    values += count_values(message);
    bytes += count_text(message);
  }
  if (values > kMaxChatValues)
    return ApiError{.message = str("the messages and tools hold ", values,
                                   " values; a conversation may have ", kMaxChatValues),
                    .param = "messages"};
  if (bytes > kMaxChatBytes)
    return ApiError{.message = str("the messages and tools hold ", bytes,
                                   " bytes of text; a conversation may have ", kMaxChatBytes),
                    .param = "messages"};
  return Ok{};
}

}  // namespace

EncodeOptions encode_options(const ApiRequest& request) {
  EncodeOptions options = {.add_special_tokens = request.encoding.add_special_tokens,
                           .cancelled = request.turn.cancelled,
                           .max_word_bytes = kMaxWordBytes};
  if (request.encoding.plain_content && request.chat) options.removed = kPlainMark;
  return options;
}

TextModel::TextModel(Tokenizer tokenizer, ChatTemplate chat_template, std::vector<TokenId> stop_ids,
                     int vocab_size, const GrammarServiceOptions& grammar_options)
    : tokenizer(std::move(tokenizer)),
      chat_template(std::move(chat_template)),
      stop_ids(std::move(stop_ids)),
      vocab_size(vocab_size),
      grammars(std::make_unique<GrammarService>(
          read_vocabulary(this->tokenizer, vocab_size, this->stop_ids), grammar_options)),
      vocabulary(this->tokenizer.vocabulary_checksum()) {
  for (TokenId id = 0; id < this->tokenizer.vocab_size(); ++id)
    if (const auto token = this->tokenizer.id_to_token(id))
      max_token_bytes = std::max(max_token_bytes, token->size());
  if (const auto id = this->tokenizer.token_to_id("<tool_call>")) call_tokens.push_back(*id);
}

// Each word as the beginning of a text and, whatever blanks it came with, behind one.
Status encode_bad_words(ApiRequest& request, const ApiRequest& first, const TextModel& model) {
  Shared<std::vector<std::vector<TokenId>>>& out = request.sampling.bad_words;
  if (&request != &first && request.bad_words == first.bad_words) {
    out = first.sampling.bad_words;
    return Ok{};
  }
  for (const std::string& word : request.bad_words) {
    const std::string bare = word.substr(std::min(word.find_first_not_of(" \t\r\n"), word.size()));
    for (const std::string& text : {bare, " " + bare}) {
      GLINT_TRY(std::vector<TokenId> tokens,
                model.tokenizer.encode(text, {.parse_special = false}));
      if (!tokens.empty()) out.own().push_back(std::move(tokens));
    }
  }
  return Ok{};
}

Result<std::string, ApiError> render_chat(const ApiRequest& request, const TextModel& model) {
  const ChatInput& chat = *request.chat;
  GLINT_TRY_STATUS(check_chat_size(chat));
  const bool continues = chat.continue_final_message && !chat.messages.empty();
  Json::Array marked;
  if (request.encoding.plain_content || continues) marked = chat.messages;
  if (request.encoding.plain_content) mark_plain(marked, model.tokenizer);
  if (continues) {
    Json& content = *marked.back().find("content");
    content = str(content.as_string(), kEndMark, " ");
  }
  const Json::Array& messages = marked.empty() ? chat.messages : marked;
  Json kwargs = chat.kwargs;
  kwargs.set("add_generation_prompt", chat.add_generation_prompt && !chat.continue_final_message);
  auto rendered = model.chat_template.render(messages, chat.tools, kwargs);
  if (!rendered.ok())
    return ApiError{
        .message = "the chat template refuses the messages: " + rendered.error().message,
        .param = "messages"};
  std::string prompt = std::move(rendered).value();
  if (!continues) return prompt;
  // The prompt ends with the last message's text; what the template puts after it goes.
  const std::size_t end = prompt.rfind(kEndMark);
  if (end == std::string::npos)
    return ApiError{.message =
                        "the chat template leaves out the last message, which "
                        "continue_final_message is to go on with",
                    .param = "messages"};
  // A template that strips texts has taken the blank behind the mark.
  const std::size_t behind = end + kEndMark.size();
  const bool strips = behind == prompt.size() || prompt[behind] != ' ';
  prompt.resize(end);
  if (strips) prompt.resize(jinja::strip_right(prompt).size());
  return prompt;
}

namespace {

// The text of the last message where the answer has its role, so that it may go on with it.
std::string echoed_text(const ChatInput& chat, std::string_view prompt) {
  const Json& last = chat.messages.back();
  const bool continued = chat.continue_final_message || !chat.add_generation_prompt;
  const bool same_role = continued || *last.find("role") == Json("assistant");
  if (!same_role) return {};
  const std::string& text = last.find("content")->as_string();
  // As in the prompt, of which many templates strip it.
  return chat.continue_final_message && !prompt.ends_with(text) ? std::string(jinja::strip(text))
                                                                : text;
}

}  // namespace

ApiStatus encode_prompts(const ApiRequest& request, const TextModel& model, int max_model_len,
                         Prepared& out) {
  if (request.chat) {
    GLINT_TRY(const std::string prompt, render_chat(request, model));
    GLINT_TRY(out.prompts.emplace_back(), encode_one(request, prompt, model, max_model_len));
    out.deltas.in_reasoning = ends_in_reasoning(model.tokenizer, out.prompts.back());
    if (request.echo)
      out.prompt_texts.push_back(echoed_text(
          *request.chat, request.encoding.plain_content ? without_marks(prompt) : prompt));
    return Ok{};
  }
  for (const Prompt& prompt : request.prompts) {
    std::vector<TokenId> tokens;
    if (prompt.tokens) {
      tokens = *prompt.tokens;
    } else {
      GLINT_TRY(tokens, encode_one(request, prompt.text, model, max_model_len));
    }
    if (tokens.empty())
      return ApiError{.message = "the prompt has no tokens; expected at least one",
                      .param = request.api == Api::kGenerate ? "text" : "prompt"};
    if (request.echo)
      out.prompt_texts.push_back(prompt.tokens ? model.tokenizer.decode(tokens) : prompt.text);
    out.prompts.push_back(std::move(tokens));
  }
  return Ok{};
}

namespace {

// Whether the client asked for a form of its answer; tools alone do not.
bool is_constrained(const ApiRequest& request) {
  const std::shared_ptr<const GrammarSpec>& spec = request.grammar;
  return spec && (!spec->lenient || spec->instead);
}

}  // namespace

Result<Prepared, ApiError> prepare(const ApiRequest& request, const TextModel& model,
                                   const ServerConfig& config, std::uint64_t seed,
                                   int row_experts) {
  Prepared out = {.deltas = delta_options(request, config)};
  GLINT_TRY_STATUS(encode_prompts(request, model, config.max_model_len, out));
  out.forbid_calls = !request.tools.specs.empty() && request.tools.choice == ToolUse::Choice::kNone;
  out.constrained = is_constrained(request);
  // Where calls are only text, nothing holds them to a form.
  out.needs_grammar = out.constrained || (request.grammar && out.deltas.parse_tools);
  out.after_reasoning = out.deltas.in_reasoning;
  out.hide_answer = request.end.max_tokens == 0;
  out.thinking_budget = request.end.thinking_budget;

  Request base;
  base.sampling = request.sampling;
  if (!request.end.ignore_eos) base.stop_ids = model.stop_ids;
  std::vector<TokenId>& stops = base.stop_ids.own();
  stops.insert(stops.end(), request.end.stop_ids.begin(), request.end.stop_ids.end());
  if (out.hide_answer) stops.clear();  // its one token ends no answer
  base.min_tokens = request.end.min_tokens;
  base.priority = request.turn.priority;
  base.cache_salt = request.turn.cache_salt;
  base.want = {.top_logprobs = request.best_of > request.n && request.facts.top_logprobs < 0
                                   ? 0
                                   : request.facts.top_logprobs,
               .prompt_logprobs = request.facts.prompt_logprobs,
               .routed_experts = request.facts.routed_experts,
               .selected_keys = request.facts.keys};
  const std::optional<std::uint64_t> wanted = request.seed ? request.seed : config.defaults.seed;
  const std::uint64_t first_seed = wanted.value_or(seed);
  for (const Shared<std::vector<TokenId>>& prompt : out.prompts) {
    GLINT_TRY(base.max_tokens, answer_length(request, static_cast<int>(prompt.size()),
                                             config.max_model_len, row_experts));
    out.max_tokens = std::max(out.max_tokens, base.max_tokens);
    base.prompt = prompt;
    if (out.thinking_budget)
      out.thinking.insert(
          out.thinking.end(), static_cast<std::size_t>(request.best_of),
          request.chat ? out.deltas.in_reasoning : ends_in_reasoning(model.tokenizer, prompt));
    // A seed is each prompt's; without one, equal prompts have different answers.
    const std::uint64_t first = wanted ? 0 : out.requests.size();
    for (int choice = 0; choice < request.best_of; ++choice) {
      Request one = base;
      const std::uint64_t place = first + static_cast<std::uint64_t>(choice);
      const auto draw = philox(first_seed, place, 0);
      one.sampling.seed =
          place == 0 ? first_seed : std::uint64_t{draw[0]} << 32 | std::uint64_t{draw[1]};
      if (request.facts.routed_experts) one.cache_salt = own_salt(seed, out.requests.size());
      out.requests.push_back(std::move(one));
    }
  }
  return out;
}

std::string grammar_field(const ApiRequest& request) {
  const GrammarSpec& spec = *request.grammar;
  const bool tools = spec.kind == GrammarSpec::Kind::kToolCalls && !(spec.lenient && spec.instead);
  return tools ? "tools" : request.grammar_field;
}

ApiError grammar_error(const Error& error, const std::string& field) {
  ApiError out = api_error(error);
  if (out.status != 400) return out;
  out.param = field;
  out.message = str(field, ": ", out.message);
  return out;
}

std::shared_ptr<TokenConstraint> constraint_of(const Prepared& prepared, const TextModel& model,
                                               std::size_t index) {
  std::shared_ptr<TokenConstraint> constraint;
  if (prepared.grammar)
    constraint = model.grammars->constrain(prepared.grammar, prepared.after_reasoning);
  const auto end_think = model.tokenizer.token_to_id("</think>");
  if (end_think && !prepared.thinking.empty() && prepared.thinking[index])
    constraint = limit_thinking(*prepared.thinking_budget, *end_think, model.call_tokens,
                                std::move(constraint));
  if (prepared.forbid_calls && !model.call_tokens.empty())
    constraint = forbid_tokens(model.call_tokens, std::move(constraint));
  return constraint;
}

}  // namespace glint
