#include "server/dialects/sampling_fields.h"

#include <algorithm>

#include "base/cut_text.h"
#include "base/hash.h"
#include "base/parse_number.h"
#include "base/str.h"
#include "server/dialects/unsupported_fields.h"
#include "server/id_source.h"

namespace glint {
namespace {

constexpr std::size_t kMaxOwnStopIds = kMaxStopIds / 2;  // the others are the model's
constexpr std::size_t kMaxBadTexts = kMaxBadWords / 2;   // each is a word alone and after a blank
constexpr std::size_t kMaxStopBytes = std::size_t{16} << 10;
constexpr std::size_t kMaxBadWordBytes = std::size_t{64} << 10;

// {"1234": -100, ...}
void read_logit_bias(RequestReader& r, ApiRequest& request, TokenId vocab_size) {
  Json bias;
  r.value("logit_bias", bias, {"object"});
  if (!bias.is_object()) return;
  if (bias.as_object().size() > kMaxLogitBias)
    return r.fail("logit_bias", str("logit_bias names ", bias.as_object().size(),
                                    " tokens; at most ", kMaxLogitBias, " are allowed"));
  std::vector<std::pair<TokenId, float>> all;
  for (const auto& [key, value] : bias.as_object()) {
    const TokenId id = parse_number<TokenId>(key).value_or(-1);
    if (id < 0 || id >= vocab_size)
      return r.fail("logit_bias", str("logit_bias names token ", quoted(key),
                                      "; expected an id from 0 to ", vocab_size - 1));
    if (!value.is_number() || !(value.as_double() >= -100 && value.as_double() <= 100))
      return r.fail("logit_bias",
                    str("logit_bias of token ", id, " is ", cut_text(dump_json(value), 200),
                        "; it must be a number from -100 to 100"));
    all.emplace_back(id, static_cast<float>(value.as_double()));
  }
  std::sort(all.begin(), all.end());
  const auto twice = std::adjacent_find(
      all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != all.end())
    return r.fail("logit_bias", str("logit_bias names token ", twice->first, " twice"));
  request.sampling.logit_bias = std::move(all);
}

void set_grammar(RequestReader& r, const char* field, GrammarSpec spec, ApiRequest& request) {
  if (request.grammar)
    return r.fail(field, str(r.path(field),
                             " cannot be combined with another constraint of the same request"));
  request.grammar = std::make_shared<const GrammarSpec>(std::move(spec));
  request.grammar_field = r.path(field);
}

// A value of one of `kinds`, which may be a text that holds it as JSON.
void read_json(RequestReader& r, const char* field, GrammarSpec::Kind kind,
               std::initializer_list<const char*> kinds, ApiRequest& request) {
  Json json;
  r.value(field, json, kinds);
  if (json.is_null()) return;
  std::string text = json.is_string() ? json.as_string() : dump_json(json);
  set_grammar(r, field, {.kind = kind, .text = std::move(text)}, request);
}

void read_schema(RequestReader& r, const char* field, ApiRequest& request) {
  read_json(r, field, GrammarSpec::Kind::kJsonSchema, {"object", "string", "boolean"}, request);
}

void read_pattern(RequestReader& r, const char* field, GrammarSpec::Kind kind,
                  ApiRequest& request) {
  std::string text;
  r.text(field, text);
  if (!r.find(field)) return;
  if (text.empty()) return r.fail(field, str(r.path(field), " is empty; expected a text"));
  set_grammar(r, field, {.kind = kind, .text = std::move(text)}, request);
}

void read_choice(RequestReader& r, const char* field, ApiRequest& request) {
  std::vector<std::string> choices;
  r.texts(field, choices, 10000);
  if (!r.find(field) || !r.ok()) return;
  if (choices.empty())
    return r.fail(field, str(r.path(field), " is empty; expected at least one text"));
  set_grammar(r, field, {.kind = GrammarSpec::Kind::kChoice, .choices = std::move(choices)},
              request);
}

void read_json_object(RequestReader& r, const char* field, ApiRequest& request) {
  bool wanted = false;
  r.boolean(field, wanted);
  if (wanted) set_grammar(r, field, {.kind = GrammarSpec::Kind::kJsonObject}, request);
}

}  // namespace

ApiRequest default_request(Api api, const ParseContext& context) {
  ApiRequest request;
  request.api = api;
  // As in vLLM and SGLang; a chat's template puts them there itself.
  request.encoding.add_special_tokens = api == Api::kCompletions || api == Api::kGenerate;
  request.sampling = context.config.defaults.sampling;
  if (api == Api::kCompletions) request.end.default_max_tokens = 16;
  if (api == Api::kGenerate) request.end.default_max_tokens = 128;
  request.form.stream_interval = context.config.defaults.stream_interval;
  request.encoding.plain_content = context.config.plain_content;
  return request;
}

void read_sampling(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  SamplingParams& s = request.sampling;
  r.number("temperature", s.temperature, {0, 100});
  r.number("top_p", s.top_p, {0, 1, true});
  r.integer("top_k", s.top_k, {-1});
  s.top_k = std::max(s.top_k, 0);  // -1: all
  r.number("min_p", s.min_p, {0, 1});
  r.number("repetition_penalty", s.repetition_penalty, {0, 100, true});
  r.number("presence_penalty", s.presence_penalty, {-2, 2});
  r.number("frequency_penalty", s.frequency_penalty, {-2, 2});
  r.seed("seed", request.seed);
  read_logit_bias(r, request, context.vocab_size);
  r.texts("bad_words", request.bad_words, kMaxBadTexts, kMaxBadWordBytes);
  const auto vocab_size = static_cast<std::size_t>(context.vocab_size);
  r.tokens("allowed_token_ids", s.allowed_ids.own(), context.vocab_size, vocab_size);
  if (r.find("allowed_token_ids") && s.allowed_ids.empty())
    r.fail("allowed_token_ids",
           str(r.path("allowed_token_ids"), " is empty; expected at least one token"));
}

void read_id(RequestReader& r, const char* name, std::string& out) {
  std::string id;
  r.text(name, id);
  if (id.empty()) return;
  if (!harmless_id(id))
    return r.fail(name, str(r.path(name), " is ", quoted(id),
                            "; expected at most 128 printable characters without blanks, quotes "
                            "and backslashes"));
  out = std::move(id);
}

void read_stops(RequestReader& r, const char* name, ApiRequest& request) {
  r.texts(name, request.end.stop, 64, kMaxStopBytes);
  std::erase(request.end.stop, "");
}

void read_turn(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  std::optional<int> priority;
  r.integer("priority", priority, {-1000000000, 1000000000});
  if (priority)
    request.turn.priority = context.config.higher_priority_first ? -*priority : *priority;
  std::string salt, extra;
  r.text("cache_salt", salt);
  r.text("extra_key", extra);
  if (!extra.empty()) salt += "\n" + extra;
  if (!salt.empty()) request.turn.cache_salt = fnv1a(salt) | 1;
}

void read_limits(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  read_stops(r, "stop", request);
  r.tokens("stop_token_ids", request.end.stop_ids, context.vocab_size, kMaxOwnStopIds);
  r.boolean("include_stop_str_in_output", request.end.include_stop);
  r.boolean("no_stop_trim", request.end.include_stop);
  r.integer("min_tokens", request.end.min_tokens);
  r.boolean("ignore_eos", request.end.ignore_eos);
  r.boolean("skip_special_tokens", request.form.skip_special);
  read_turn(r, request, context);
  read_id(r, "rid", request.turn.rid);
  read_id(r, "request_id", request.turn.rid);
}

void read_routed_experts(RequestReader& r, ApiRequest& request) {
  r.boolean("return_routed_experts", request.facts.routed_experts);
  if (request.facts.routed_experts && request.form.stream)
    r.fail("return_routed_experts", "return_routed_experts cannot be streamed; use /generate");
}

// The members that the type names; others mean nothing, as with the type "text".
void read_response_format(RequestReader& r, const char* inner, ApiRequest& request) {
  std::string type;
  r.one_of(
      "type", type,
      {"text", "json_object", "json_schema", "regex", "ebnf", "grammar", "json", "structural_tag"});
  r.require("type");
  const auto is = [&](std::string_view one) { return !r.reading() || type == one; };
  const auto require = [&](RequestReader& f, const char* name) {
    if (r.reading()) f.require(name);
  };
  if (*inner != '\0' && is("json_schema")) {
    r.group(inner, [&](RequestReader& f) {
      read_schema(f, "schema", request);
      require(f, "schema");
    });
    require(r, inner);
  }
  const bool is_here = is("json") || (*inner == '\0' && is("json_schema"));
  if (is_here || (is("json_object") && r.find("schema"))) {
    read_schema(r, "schema", request);
    if (is_here) require(r, "schema");
  } else if (is("json_object")) {
    set_grammar(r, "type", {}, request);
  }
  if (type == "structural_tag")
    set_grammar(r, "type",
                {.kind = GrammarSpec::Kind::kStructuralTag, .text = dump_json(*r.json())}, request);
  r.describe("format", Json::Object{{"type", "object"}});
  r.describe("structures", Json::Object{{"type", "array"}});
  r.describe("triggers", Json::Object{{"type", "array"}});
  for (const auto& [name, kind] :
       {std::pair{"regex", GrammarSpec::Kind::kRegex}, std::pair{"ebnf", GrammarSpec::Kind::kEbnf},
        std::pair{"grammar", GrammarSpec::Kind::kEbnf}}) {
    if (!is(name)) continue;
    read_pattern(r, name, kind, request);
    require(r, name);
  }
}

void read_constraint(RequestReader& r, ApiRequest& request) {
  r.group("response_format",
          [&](RequestReader& f) { read_response_format(f, "json_schema", request); });
  r.group("structured_outputs", [&](RequestReader& f) {
    refuse_unsupported_constraints(f);
    read_schema(f, "json", request);
    read_pattern(f, "regex", GrammarSpec::Kind::kRegex, request);
    read_choice(f, "choice", request);
    read_pattern(f, "grammar", GrammarSpec::Kind::kEbnf, request);
    read_json_object(f, "json_object", request);
    read_json(f, "structural_tag", GrammarSpec::Kind::kStructuralTag, {"object", "string"},
              request);
    if (f.reading() && !request.grammar && !f.find("json_object"))
      r.fail("structured_outputs",
             "structured_outputs holds no constraint; give one of json, regex, choice, grammar, "
             "json_object and structural_tag");
  });
  read_schema(r, "guided_json", request);
  read_pattern(r, "guided_regex", GrammarSpec::Kind::kRegex, request);
  read_choice(r, "guided_choice", request);
  read_pattern(r, "guided_grammar", GrammarSpec::Kind::kEbnf, request);
  read_pattern(r, "regex", GrammarSpec::Kind::kRegex, request);
  read_pattern(r, "ebnf", GrammarSpec::Kind::kEbnf, request);
  read_pattern(r, "grammar", GrammarSpec::Kind::kEbnf, request);
  read_schema(r, "json_schema", request);
  read_json(r, "structural_tag", GrammarSpec::Kind::kStructuralTag, {"object", "string"}, request);
  read_choice(r, "choice", request);
}

void read_streaming(RequestReader& r, ApiRequest& request) {
  r.boolean("stream", request.form.stream);
  r.group("stream_options", [&](RequestReader& f) {
    f.boolean("include_usage", request.form.include_usage);
    f.boolean("continuous_usage_stats", request.form.continuous_usage);
  });
  if (r.find("stream_options") && !request.form.stream)
    r.fail("stream_options", "stream_options are given, but stream is not true");
  r.integer("stream_interval", request.form.stream_interval, {1, 1000000});
  r.boolean("return_token_ids", request.form.return_token_ids);
  r.boolean("return_tokens_as_token_ids", request.form.tokens_as_ids);
  r.boolean("return_timings", request.form.return_timings);
}

void read_num_logprobs(RequestReader& r, const char* name, std::optional<int>& out,
                       const ParseContext& context) {
  const int most = context.config.max_logprobs;
  r.integer(name, out, {-1, most});
  if (out != -1) return;
  out = context.vocab_size;
  if (*out > most)
    r.fail(name, str(r.path(name), " is -1, which is all ", *out, " tokens of the vocabulary; the ",
                     "server gives at most ", most, " (--max-logprobs)"));
}

void read_prompt_logprobs(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  std::optional<int> prompt;
  read_num_logprobs(r, "prompt_logprobs", prompt, context);
  if (!prompt) return;
  request.facts.prompt_logprobs = *prompt;
  if (request.form.stream) r.fail("prompt_logprobs", "prompt_logprobs cannot be streamed");
}

void check_choices(RequestReader& r, ApiRequest& request) {
  if (!r.reading() || !r.ok()) return;
  const std::int64_t prompts = std::max<std::int64_t>(1, std::ssize(request.prompts));
  if (prompts * request.best_of > kMaxChoices)
    return r.fail(request.best_of > 1 ? (request.best_of > request.n ? "best_of" : "n") : "prompt",
                  str(counted(prompts, "prompt"), " with ", counted(request.best_of, "answer"),
                      " each are too many; one request may have ", kMaxChoices, " answers"));
  if (request.form.stream && request.best_of > request.n)
    return r.fail("best_of", "best_of above n cannot be streamed: the best are known at the end");
}

}  // namespace glint
