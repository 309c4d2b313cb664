#include "server/dialects/sglang_generate.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "base/base64.h"
#include "base/str.h"
#include "server/dialects/openai_request.h"
#include "server/dialects/sampling_fields.h"
#include "server/dialects/thinking_fields.h"
#include "server/dialects/unsupported_fields.h"

namespace glint {
namespace {

void read_params(RequestReader& p, ApiRequest& request, const ParseContext& context) {
  refuse_unsupported(p, Api::kGenerate);
  p.integer("max_new_tokens", request.end.max_tokens);
  p.integer("min_new_tokens", request.end.min_tokens);
  p.seed("sampling_seed", request.seed);
  p.integer("n", request.n, {1, kMaxChoices});
  request.best_of = request.n;
  read_sampling(p, request, context);
  read_limits(p, request, context);
  read_constraint(p, request);
  read_prompt_thinking(p, request);
}

// [log-probability, token, text or null]
Json triple(Json logprob, TokenId id, const TokenNames& names) {
  return Json::Array{std::move(logprob), id, names.text(id)};
}

Json top_list(const TokenLogprob& score, const TokenNames& names) {
  Json::Array list;
  for (const TokenLogprob::Top& top : score.top)
    list.push_back(triple(finite_logprob(top.logprob), top.id, names));
  return list;
}

// {"type": "stop", "matched": ...} or {"type": "length", "length": n}
Json finish_json(const Choice& choice) {
  const Finish& finish = choice.finish;
  if (finish.reason == FinishReason::kLength)
    return Json::Object{{"type", "length"}, {"length", static_cast<int>(choice.tokens.size())}};
  Json out = Json::Object{{"type", name_of(finish.reason)}};
  if (finish.stop_string) {
    out.set("matched", *finish.stop_string);
  } else if (finish.on_stop_token) {
    out.set("matched", choice.tokens.back());
  }
  return out;
}

// [rows, layers, chosen experts] of [rows, MoE layers, chosen experts]: as in SGLang, layers
// without experts have zeros.
std::vector<std::int32_t> experts_of_layers(const std::vector<std::uint16_t>& chosen,
                                            const ResponseInfo& info) {
  const auto k = static_cast<std::size_t>(info.experts_per_token);
  const std::size_t row = info.moe_layers.size() * k;
  const std::size_t rows = row == 0 ? 0 : chosen.size() / row;
  const auto num_layers = static_cast<std::size_t>(info.num_layers);
  std::vector<std::int32_t> out(rows * num_layers * k);
  auto from = chosen.begin();
  for (std::size_t i = 0; i < rows; ++i) {
    for (const int layer : info.moe_layers) {
      const std::size_t to = (i * num_layers + static_cast<std::size_t>(layer)) * k;
      std::copy_n(from, k, out.begin() + static_cast<std::ptrdiff_t>(to));
      from += info.experts_per_token;
    }
  }
  return out;
}

// The fields that all prompts of a list share.
void read_shared(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  refuse_unsupported(r, Api::kGenerate);
  read_turn(r, request, context);
  r.boolean("stream", request.form.stream);
  r.integer("stream_interval", request.form.stream_interval, {1, 1000000});
}

void read_sampling_params(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  r.group("sampling_params", [&](RequestReader& p) { read_params(p, request, context); });
}

// The fields that a list of prompts may have lists of, but for sampling_params.
void read_own(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  read_prompts(r, "input_ids", request, context, kMaxChoices, PromptKind::kTokens);
  const bool has_ids = !request.prompts.empty();
  if (!has_ids) {
    read_prompts(r, "text", request, context, kMaxChoices, PromptKind::kText);
    if (r.reading()) r.require("text");
  }
  if (request.batch) {
    const char* name = has_ids ? "input_ids" : "text";
    r.fail(name, str(r.path(name), " is a list of prompts; expected one prompt"));
  }
  read_id(r, "rid", request.turn.rid);
  request.turn.id = request.turn.rid;
  bool logprobs = false;
  int top = 0;
  r.boolean("return_logprob", logprobs);
  r.integer("top_logprobs_num", top, {0, context.config.max_logprobs});
  r.integer("logprob_start_len", request.facts.logprob_start, {-1});
  r.boolean("return_routed_experts", request.facts.routed_experts);
  if (logprobs) {
    request.facts.top_logprobs = top;
    if (request.facts.logprob_start >= 0) request.facts.prompt_logprobs = top;
  }
}

// Fields that may be lists: one element for each prompt. The prompts are the last two.
constexpr const char* kListed[] = {
    "sampling_params",   "rid",  "return_logprob", "top_logprobs_num", "return_routed_experts",
    "logprob_start_len", "text", "input_ids"};
constexpr std::span<const char* const> kListedBesides = std::span(kListed).first(6);

// The list of prompts, and its name; null: there is one prompt, or none.
std::pair<const Json*, const char*> prompt_list(const Json& body) {
  const Json* ids = body.find("input_ids");
  const bool has_ids = ids && !ids->is_null();
  const Json* list = has_ids ? ids : body.find("text");
  const bool is_list = list && list->is_array() &&
                       !(has_ids && !list->as_array().empty() && !list->as_array()[0].is_array());
  return {is_list ? list : nullptr, has_ids ? "input_ids" : "text"};
}

ApiError too_many_answers(std::size_t prompts, int answers, const char* param) {
  return {.message = str(counted(static_cast<std::int64_t>(prompts), "prompt"), " with ",
                         counted(answers, "answer"), " are too many; one request may have ",
                         kMaxChoices, " answers"),
          .param = param};
}

// As many of each as prompts, and not too many.
ApiStatus check_lists(const Json& body, std::size_t num_prompts, const char* prompts) {
  if (num_prompts == 0)
    return ApiError{.message = str(prompts, " is empty; expected at least one prompt"),
                    .param = prompts};
  if (num_prompts > std::size_t{kMaxChoices})
    return too_many_answers(num_prompts, static_cast<int>(num_prompts), prompts);
  for (const char* name : kListed) {
    const Json* list = body.find(name);
    if (!list || !list->is_array() || list->as_array().size() == num_prompts) continue;
    return ApiError{
        .message = str(name, " has ", counted(std::ssize(list->as_array()), "item"), " for ",
                       counted(static_cast<std::int64_t>(num_prompts), "prompt"),
                       "; give one for each, or one for all"),
        .param = name};
  }
  return Ok{};
}

}  // namespace

void read_generate(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  read_shared(r, request, context);
  read_sampling_params(r, request, context);
  read_own(r, request, context);
  if (!r.reading()) r.read_items(kListedBesides, 0);
}

// Values that all prompts share are read once, so that a list costs no more than its bytes.
Result<std::vector<ApiRequest>, ApiError> parse_generate(const Json& body,
                                                         const ParseContext& context) {
  const auto is_given = [&](const char* name) {
    const Json* const value = body.find(name);
    return value && !value->is_null();
  };
  if (is_given("text") && is_given("input_ids")) {
    return ApiError{.message = "text and input_ids are both given; send one of them",
                    .param = "text"};
  }
  const auto [prompts, name] = prompt_list(body);
  if (!prompts) {
    GLINT_TRY(ApiRequest one, parse_request(body, Api::kGenerate, read_generate, context));
    return std::vector{std::move(one)};
  }
  const std::size_t num_prompts = prompts->as_array().size();
  GLINT_TRY_STATUS(check_lists(body, num_prompts, name));
  const Json* params = body.find("sampling_params");
  const bool has_own_params = params && params->is_array();
  ApiRequest shared = default_request(Api::kGenerate, context);
  GLINT_TRY_STATUS(read_body(body, [&](RequestReader& r) {
    read_shared(r, shared, context);
    if (!has_own_params) read_sampling_params(r, shared, context);
  }));
  std::vector<ApiRequest> all;
  int num_choices = 0;
  for (std::size_t i = 0; i < num_prompts; ++i) {
    ApiRequest& one = all.emplace_back(shared);
    one.first_choice = num_choices;
    GLINT_TRY_STATUS(read_body(body, [&, i](RequestReader& r) {
      r.read_items(kListed, i);
      if (has_own_params) read_sampling_params(r, one, context);
      read_own(r, one, context);
    }));
    one.batch = true;
    const Json* rid = body.find("rid");
    if (rid && rid->is_string() && !one.turn.id.empty()) one.turn.id += str("_", i);
    num_choices += one.n;
    if (num_choices > kMaxChoices)
      return too_many_answers(num_prompts, num_choices, "sampling_params");
  }
  return all;
}

Json GenerateWriter::choice_json(const Choice& choice, const Answer& answer, bool ended) const {
  const std::vector<TokenId>& prompt = answer.prompts[static_cast<std::size_t>(choice.prompt)];
  Json meta = Json::Object{{"id", request_.n > 1 ? choice_id(info_.id, choice.index) : info_.id},
                           {"finish_reason", ended ? finish_json(choice) : Json()},
                           {"prompt_tokens", static_cast<int>(prompt.size())},
                           {"completion_tokens", static_cast<int>(choice.tokens.size())},
                           {"cached_tokens", choice.usage.cached_tokens},
                           {"weight_version", info_.weights->load()}};
  if (ended) meta.set("e2e_latency", choice.usage.finished_s);
  if (ended && request_.form.return_timings) meta.set("timings", timings_json(answer));
  if (request_.facts.top_logprobs >= 0) {
    Json::Array output, output_top, input, input_top;
    for (const TokenScore& score : choice.scores) {
      output.push_back(triple(finite_logprob(score.logprob.logprob), score.id, names_));
      output_top.push_back(top_list(score.logprob, names_));
    }
    meta.set("output_token_logprobs", std::move(output));
    // The prompt's logprobs do not change: a stream sends them only at its end.
    const auto start =
        ended ? static_cast<std::size_t>(std::max(request_.facts.logprob_start, 0)) : prompt.size();
    if (request_.facts.logprob_start == 0 && ended) {
      input.push_back(triple(Json(), prompt[0], names_));
      input_top.push_back(Json());
    }
    for (std::size_t i = std::max<std::size_t>(start, 1);
         i < prompt.size() && i <= choice.prompt_scores.size(); ++i) {
      const TokenLogprob& score = choice.prompt_scores[i - 1];
      input.push_back(triple(finite_logprob(score.logprob), prompt[i], names_));
      input_top.push_back(top_list(score, names_));
    }
    meta.set("input_token_logprobs", std::move(input));
    if (request_.facts.top_logprobs > 0) {
      meta.set("output_top_logprobs", std::move(output_top));
      meta.set("input_top_logprobs", std::move(input_top));
    }
  }
  if (request_.facts.routed_experts && ended) {
    static_assert(std::endian::native == std::endian::little);
    const std::vector<std::int32_t> ids = experts_of_layers(choice.routed_experts, info_);
    meta.set("routed_experts",
             to_base64({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof ids[0]}));
    const int per_row = std::max(info_.num_layers * info_.experts_per_token, 1);
    meta.set("routed_experts_shape", Json::Array{static_cast<int>(ids.size()) / per_row,
                                                 info_.num_layers, info_.experts_per_token});
  }
  return Json::Object{{"text", choice.text()},
                      {"output_ids", ids_json(choice.tokens)},
                      {"meta_info", std::move(meta)}};
}

Json GenerateWriter::whole(const Answer& answer) {
  Json::Array all;
  for (const Choice& choice : answer.choices) all.push_back(choice_json(choice, answer, true));
  if (all.size() == 1) return std::move(all[0]);
  return all;
}

void GenerateWriter::piece(const Piece& piece, const Answer& answer, std::string& out) {
  const Choice& choice = answer.choices[static_cast<std::size_t>(piece.choice)];
  Json json = choice_json(choice, answer, piece.finish.has_value());
  if (answer.choices.size() > 1 || request_.batch)
    json.set("index", request_.first_choice + piece.choice);
  append_event(out, "", dump_json(json));
}

void GenerateWriter::end(const Answer&, std::string& out) { append_event(out, "", "[DONE]"); }

void GenerateWriter::error(const ApiError& error, std::string& out) {
  append_event(out, "", dump_json(error_json(error, ErrorStyle::kOpenAi)));
  append_event(out, "", "[DONE]");
}

}  // namespace glint
