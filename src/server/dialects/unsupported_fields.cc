#include "server/dialects/unsupported_fields.h"

#include <algorithm>

#include "base/str.h"

namespace glint {
namespace {

struct Unsupported {
  const char* name;
  const char* remedy;
  std::vector<Json> harmless = {};  // besides null, false, 0 and what is empty
  bool asks_when_empty = false;     // {} asks for it, with its defaults
};

const std::vector<Unsupported>& of_sampling() {
  static const std::vector<Unsupported> fields = {
      {"use_beam_search", "answers are sampled; the likeliest tokens have temperature 0"},
      {"session_params", "send the whole prompt"},
      {"truncate_prompt_tokens", "send a shorter prompt"},
      {"typical_p", "use top_p or min_p", {1}},
      {"tfs_z", "use top_p or min_p", {1}},
      {"top_a", "use top_p or min_p"},
      {"top_n_sigma", "use top_p or min_p", {-1}},
      {"mirostat", "use temperature and top_p"},
      {"dynatemp_range", "use temperature"},
      {"xtc_probability", "use temperature"},
      {"smoothing_factor", "use temperature"},
      {"diversity_penalty", "use temperature"},
      {"epsilon_cutoff", "use min_p"},
      {"eta_cutoff", "use min_p"},
      {"penalty_alpha", "use top_p or min_p"},
      {"dry_multiplier", "use repetition_penalty"},
      {"no_repeat_ngram_size", "use repetition_penalty"},
      {"repeat_penalty", "use repetition_penalty", {1}},
      {"repetition_detection", "use repetition_penalty"},
      {"random_seed", "use seed"},
      {"stop_regex", "use stop"},
      {"guided_whitespace_pattern", "blanks in JSON are bounded; for others use guided_grammar"},
      {"logprob_token_ids", "log-probabilities are those of the likeliest tokens"},
      {"logits_processors", "use logit_bias or a grammar"},
      {"custom_logit_processor", "use logit_bias or a grammar"},
      {"lora_path", "the model has no adapters"},
      {"lora_request", "the model has no adapters"},
      {"return_hidden_states", "the answer is tokens and log-probabilities"},
      {"return_indexer_topk", "/engine/selected_keys tells those of the prompt's last token"},
      {"routed_experts_start_len", "routed experts are those of all rows"}};
  return fields;
}

const std::vector<Unsupported>& of_structured_outputs() {
  static const std::vector<Unsupported> fields = {
      {"whitespace_pattern", "blanks in JSON are bounded; for others use grammar"},
      {"disable_any_whitespace", "blanks in JSON are bounded; for none use grammar"},
      {"disable_additional_properties", "say \"additionalProperties\": false in the schema"}};
  return fields;
}

const std::vector<Unsupported>& of_api(Api api) {
  static const std::vector<Unsupported> prompts = {
      {"prompt_token_ids", "send them as prompt, or as input_ids to /generate"},
      {"prompt_embeds", "send text or tokens"},
      {"input_embeds", "send text or tokens"},
      {"token_ids_logprob", "log-probabilities are those of the likeliest tokens"},
      {"image_data", "the model reads text only"},
      {"audio_data", "the model reads text only"},
      {"video_data", "the model reads text only"}};
  static const std::vector<Unsupported> completions = [] {
    std::vector<Unsupported> fields = {{"input_ids", "send them as prompt"}};
    fields.insert(fields.end(), prompts.begin(), prompts.end());
    return fields;
  }();
  static const std::vector<Unsupported> chat = {
      {"functions", "use tools"},
      {"function_call", "use tool_choice", {"none"}},
      {"modalities", "the model writes text only", {Json(Json::Array{"text"})}},
      {"audio", "the model writes text only"},
      {"web_search_options", "bring a tool that searches", {}, true},
      {"prompt_embeds", "send messages"},
      {"input_ids", "send them to /v1/completions as prompt"},
      {"prompt_token_ids", "send them to /v1/completions as prompt"},
      {"documents", "put them into a message"},
      {"chat_template", "the checkpoint's own is used; use chat_template_kwargs"}};
  static const Unsupported n = {"n", "use /v1/chat/completions, or send it again", {1}};
  static const Unsupported best_of = {"best_of", "use /v1/completions, or send it again", {1}};
  static const std::vector<Unsupported> responses = {
      n,
      best_of,
      {"return_routed_experts", "use /v1/chat/completions or /generate"},
      {"conversation", "nothing is stored; send the whole conversation as input"},
      {"prompt", "nothing is stored; send the prompt as instructions and input"}};
  static const std::vector<Unsupported> messages = {
      n,
      best_of,
      {"return_routed_experts", "use /v1/chat/completions or /generate"},
      {"mcp_servers", "bring the tools themselves"},
      {"container", "bring a tool that runs code"}};
  switch (api) {
    case Api::kChat:
      return chat;
    case Api::kResponses:
      return responses;
    case Api::kMessages:
      return messages;
    case Api::kCompletions:
      return completions;
    case Api::kGenerate:
    case Api::kKeys:
      break;
  }
  return prompts;
}

bool is_off(const Json& value) {
  if (value.is_bool()) return !value.as_bool();
  if (value.is_number()) return value.as_double() == 0;
  if (value.is_string()) return value.as_string().empty();
  if (value.is_array()) return value.as_array().empty();
  return value.is_object() && value.as_object().empty();
}

bool is_harmless(const Json& value, const Json& harmless) {
  if (value.is_number() && harmless.is_number()) return value.as_double() == harmless.as_double();
  return value == harmless;
}

void refuse(RequestReader& r, const std::vector<Unsupported>& fields) {
  for (const Unsupported& field : fields) {
    const Json* value = r.find(field.name);
    const auto same = [&](const Json& harmless) { return is_harmless(*value, harmless); };
    if (!value || value->is_null()) continue;
    const bool asks = field.asks_when_empty && value->is_object();
    if ((is_off(*value) && !asks) || std::ranges::any_of(field.harmless, same)) continue;
    r.fail(field.name, str(r.path(field.name), " is not supported: ", field.remedy));
  }
}

}  // namespace

void refuse_unsupported(RequestReader& r, Api api) {
  refuse(r, of_sampling());
  refuse(r, of_api(api));
}

std::vector<std::pair<std::string, std::string>> unsupported_fields(Api api) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto* fields : {&of_sampling(), &of_structured_outputs(), &of_api(api)})
    for (const Unsupported& field : *fields) all.emplace_back(field.name, field.remedy);
  return all;
}

void refuse_unsupported_constraints(RequestReader& r) { refuse(r, of_structured_outputs()); }

}  // namespace glint
