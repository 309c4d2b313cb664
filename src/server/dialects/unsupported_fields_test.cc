#include "server/dialects/unsupported_fields.h"

#include <gtest/gtest.h>

#include <set>

#include "base/str.h"
#include "server/dialects/anthropic.h"
#include "server/dialects/openai_request.h"
#include "server/dialects/responses_api.h"
#include "server/dialects/sglang_generate.h"

namespace glint {
namespace {

std::string error_of(const std::string& body, Api api, ReadRequest read) {
  const ServerConfig config = {.served_names = {"m"}};
  const auto request = parse_request(parse_json(body).value(), api, read, {config, 1000});
  return request.ok() ? "" : request.error().param + ": " + request.error().message;
}

std::string chat(const std::string& field) {
  return error_of(str(R"({"messages": [{"role": "user", "content": "hi"}], )", field, "}"),
                  Api::kChat, read_chat);
}
std::string completion(const std::string& field) {
  return error_of(str(R"({"prompt": "x", )", field, "}"), Api::kCompletions, read_completion);
}
std::string responses(const std::string& field) {
  return error_of(str(R"({"input": "x", )", field, "}"), Api::kResponses, read_responses);
}
std::string messages(const std::string& field) {
  return error_of(
      str(R"({"max_tokens": 9, "messages": [{"role": "user", "content": "q"}], )", field, "}"),
      Api::kMessages, read_anthropic);
}
std::string generate(const std::string& field) {
  return error_of(str(R"({"text": "x", )", field, "}"), Api::kGenerate, read_generate);
}

TEST(UnsupportedFields, what_would_change_the_answer_is_refused_by_name) {
  EXPECT_EQ(responses(R"("conversation": "conv_1")"),
            "conversation: conversation is not supported: nothing is stored; send the whole "
            "conversation as input");
  EXPECT_EQ(completion(R"("use_beam_search": true)"),
            "use_beam_search: use_beam_search is not supported: answers are sampled; the likeliest "
            "tokens have temperature 0");
  EXPECT_EQ(completion(R"("truncate_prompt_tokens": 3)"),
            "truncate_prompt_tokens: truncate_prompt_tokens is not supported: send a shorter "
            "prompt");
  for (const std::string& error :
       {chat(R"("session_params": {"id": "s"})"), generate(R"("session_params": {"id": "s"})")})
    EXPECT_EQ(error, "session_params: session_params is not supported: send the whole prompt");
  EXPECT_EQ(chat(R"("functions": [{"name": "f"}])"),
            "functions: functions is not supported: use tools");
  EXPECT_EQ(chat(R"("modalities": ["text", "audio"])"),
            "modalities: modalities is not supported: the model writes text only");
  EXPECT_EQ(chat(R"("web_search_options": {})"),
            "web_search_options: web_search_options is not supported: bring a tool that searches");
  EXPECT_EQ(chat(R"("no_repeat_ngram_size": 3)"),
            "no_repeat_ngram_size: no_repeat_ngram_size is not supported: use repetition_penalty");
  EXPECT_EQ(completion(R"("repeat_penalty": 1.1)"),
            "repeat_penalty: repeat_penalty is not supported: use repetition_penalty");
  EXPECT_EQ(chat(R"("input_ids": [5])"),
            "input_ids: input_ids is not supported: send them to /v1/completions as prompt");
  EXPECT_EQ(completion(R"("input_ids": [5])"),
            "input_ids: input_ids is not supported: send them as prompt");
  EXPECT_EQ(generate(R"("input_ids": [5])"), "");
  for (const std::string& error :
       {completion(R"("prompt_token_ids": [5])"), generate(R"("prompt_token_ids": [5])")})
    EXPECT_EQ(error,
              "prompt_token_ids: prompt_token_ids is not supported: send them as prompt, or as "
              "input_ids to /generate");
  EXPECT_EQ(messages(R"("mcp_servers": [{"name": "x"}])"),
            "mcp_servers: mcp_servers is not supported: bring the tools themselves");
  EXPECT_EQ(messages(R"("n": 2)"),
            "n: n is not supported: use /v1/chat/completions, or send it again");
  EXPECT_EQ(responses(R"("best_of": 2)"),
            "best_of: best_of is not supported: use /v1/completions, or send it again");
  EXPECT_EQ(
      generate(R"("token_ids_logprob": [5])"),
      "token_ids_logprob: token_ids_logprob is not supported: log-probabilities are those of the "
      "likeliest tokens");
  EXPECT_EQ(
      chat(R"("logprobs": true, "logprob_token_ids": [5])"),
      "logprob_token_ids: logprob_token_ids is not supported: log-probabilities are those of the "
      "likeliest tokens");
  EXPECT_EQ(completion(R"("structured_outputs": {"json": {}, "whitespace_pattern": " ?"})"),
            "structured_outputs.whitespace_pattern: structured_outputs.whitespace_pattern is not "
            "supported: blanks in JSON are bounded; for others use grammar");
  EXPECT_EQ(generate(R"("sampling_params": {"stop_regex": "a+"})"),
            "sampling_params.stop_regex: sampling_params.stop_regex is not supported: use stop");
  for (const std::string& error : {responses(R"("return_routed_experts": true)"),
                                   messages(R"("return_routed_experts": true)")})
    EXPECT_EQ(error,
              "return_routed_experts: return_routed_experts is not supported: use "
              "/v1/chat/completions or /generate");
  EXPECT_EQ(generate(R"("return_indexer_topk": true)"),
            "return_indexer_topk: return_indexer_topk is not supported: /engine/selected_keys "
            "tells those of the prompt's last token");
  EXPECT_EQ(generate(R"("return_routed_experts": true, "routed_experts_start_len": 5)"),
            "routed_experts_start_len: routed_experts_start_len is not supported: routed experts "
            "are those of all rows");
}

TEST(UnsupportedFields, what_says_the_default_is_not) {
  EXPECT_EQ(chat(R"("use_beam_search": false, "functions": [], "function_call": "none",
                    "modalities": ["text"], "audio": null, "typical_p": 1.0, "mirostat": 0,
                    "repeat_penalty": 1, "prompt_embeds": null,
                    "web_search_options": null)"),
            "");
  EXPECT_EQ(messages(R"("n": 1, "best_of": 1)"), "");
  EXPECT_EQ(responses(R"("conversation": null, "prompt": null)"), "");
  EXPECT_EQ(completion(R"("structured_outputs": {"regex": "a", "disable_any_whitespace": false})"),
            "");
  EXPECT_EQ(messages(R"("mcp_servers": [], "container": null)"), "");
}

// The names of all properties within a schema.
void add_names(const Json& schema, std::set<std::string>& names) {
  if (schema.is_array())
    for (const Json& item : schema.as_array()) add_names(item, names);
  if (!schema.is_object()) return;
  if (const Json* properties = schema.find("properties"))
    for (const auto& [name, inner] : properties->as_object()) names.insert(name);
  for (const auto& [name, inner] : schema.as_object()) add_names(inner, names);
}

TEST(UnsupportedFields, remedies_are_fields_of_the_same_api) {
  const ServerConfig config = {.served_names = {"m"}};
  const std::set<std::string> other_words = {"a", "grammar"};
  int num_fields = 0;
  for (const auto& [api, read] : {std::pair<Api, ReadRequest>{Api::kChat, read_chat},
                                  {Api::kCompletions, read_completion},
                                  {Api::kResponses, read_responses},
                                  {Api::kMessages, read_anthropic},
                                  {Api::kGenerate, read_generate}}) {
    Json schema;
    RequestReader reader(schema);
    ApiRequest request = default_request(api, {config, 1000});
    read(reader, request, {config, 1000});
    std::set<std::string> names;
    add_names(schema, names);
    for (const auto& [field, remedy] : unsupported_fields(api)) {
      const std::size_t use = remedy.find("use ");
      if (use == std::string::npos) continue;
      const std::string list = remedy.substr(use + 4, remedy.find(',', use) - use - 4);
      for (const std::string_view word : split(list, ' ')) {
        if (word == "or" || word == "and" || word[0] == '/') continue;
        ++num_fields;
        EXPECT_TRUE(names.contains(std::string(word)) || other_words.contains(std::string(word)))
            << static_cast<int>(api) << ": " << field << ": " << remedy;
      }
    }
  }
  EXPECT_GT(num_fields, 100);
}

TEST(UnsupportedFields, messages_read_the_fields_that_remedies_name) {
  EXPECT_EQ(messages(R"("logit_bias": "x")").substr(0, 11), "logit_bias:");
  EXPECT_EQ(messages(R"("guided_choice": 5)").substr(0, 14), "guided_choice:");
  EXPECT_EQ(messages(R"("thinking_token_budget": "x")").substr(0, 22), "thinking_token_budget:");
  EXPECT_EQ(messages(R"("chat_template_kwargs": 5)").substr(0, 21), "chat_template_kwargs:");
  EXPECT_EQ(messages(R"("stop": "a", "stop_sequences": ["b"])"),
            "stop: stop and stop_sequences say the same; send one of them");
}

}  // namespace
}  // namespace glint
