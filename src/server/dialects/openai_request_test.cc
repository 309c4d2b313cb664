#include "server/dialects/openai_request.h"

#include <gtest/gtest.h>

#include <span>

#include "base/str.h"
#include "server/dialects/anthropic.h"
#include "server/dialects/request_testing.h"
#include "server/dialects/responses_api.h"
#include "server/dialects/sglang_generate.h"
#include "server/prepare.h"

namespace glint {
namespace {

Parsed chat(const std::string& fields) {
  return parse(R"({"messages": [{"role": "user", "content": "hi"}])" +
                   (fields.empty() ? "" : ", " + fields) + "}",
               Api::kChat, read_chat);
}

Parsed messages(const std::string& list) {
  return parse(R"({"messages": )" + list + "}", Api::kChat, read_chat);
}

Parsed completion(const std::string& fields) {
  return parse("{" + fields + "}", Api::kCompletions, read_completion);
}

Parsed generate(const std::string& fields) {
  return parse("{" + fields + "}", Api::kGenerate, read_generate);
}

Parsed anthropic(const std::string& fields) {
  return parse(R"({"model": "m", "max_tokens": 9, )" + fields + "}", Api::kMessages,
               read_anthropic);
}

Parsed responses(const std::string& fields) {
  return parse("{" + fields + "}", Api::kResponses, read_responses);
}

TEST(OpenAiRequest, what_is_not_said_is_the_servers_default) {
  const Parsed p = chat("");
  ASSERT_FALSE(p.error) << p.error->message;
  EXPECT_EQ(p.request.sampling.temperature, 0.7);
  EXPECT_EQ(p.request.sampling.top_p, 0.9);
  EXPECT_FALSE(p.request.end.max_tokens);
  EXPECT_FALSE(p.request.end.default_max_tokens);
  EXPECT_EQ(completion(R"("prompt": "x")").request.end.default_max_tokens, 16);
  EXPECT_EQ(generate(R"("text": "x")").request.end.default_max_tokens, 128);
}

TEST(OpenAiRequest, minus_one_asks_for_the_log_probabilities_of_all_tokens) {
  ServerConfig all = config();
  all.max_logprobs = 1000;
  const std::string chat_body =
      R"({"messages": [{"role": "user", "content": "hi"}], "logprobs": true, "top_logprobs": -1})";
  const std::string completion_body = R"({"prompt": "x", "prompt_logprobs": -1})";
  const auto facts = [&](const std::string& body, Api api, ReadRequest read) {
    return parse_request(parse_json(body).value(), api, read, {all, 1000}).value().facts;
  };
  EXPECT_EQ(facts(chat_body, Api::kChat, read_chat).top_logprobs, 1000);
  EXPECT_EQ(facts(completion_body, Api::kCompletions, read_completion).prompt_logprobs, 1000);
  EXPECT_EQ(parse(chat_body, Api::kChat, read_chat).error->message,
            "top_logprobs is -1, which is all 1000 tokens of the vocabulary; the server gives at "
            "most 20 (--max-logprobs)");
  EXPECT_EQ(parse(completion_body, Api::kCompletions, read_completion).error->param,
            "prompt_logprobs");
  EXPECT_EQ(completion(R"("prompt": "x", "prompt_logprobs": -2)").error->message,
            "prompt_logprobs is -2; it must be an integer from -1 to 20");
  EXPECT_EQ(completion(R"("prompt": "x", "logprobs": -1)").error->message,
            "logprobs is -1; it must be an integer from 0 to 20");
  EXPECT_EQ(chat(R"("top_logprobs": -1)").error->param, "top_logprobs");
}

TEST(OpenAiRequest, every_sampling_field_arrives) {
  const Parsed p = chat(R"("temperature": 1, "top_p": 0.5, "top_k": 7, "min_p": 0.1,
      "repetition_penalty": 1.5, "presence_penalty": -1, "frequency_penalty": 2, "seed": -1,
      "logit_bias": {"5": -100, "6": 3.5}, "bad_words": ["a"], "allowed_token_ids": [1, 2],
      "stop": "x", "stop_token_ids": [9], "min_tokens": 3, "ignore_eos": true, "priority": -4,
      "cache_salt": "s", "n": 3, "logprobs": true, "top_logprobs": 2, "max_completion_tokens": 50,
      "include_stop_str_in_output": true, "skip_special_tokens": false, "stream": true,
      "stream_options": {"include_usage": true, "continuous_usage_stats": true},
      "stream_interval": 4, "return_token_ids": true, "return_timings": true, "rid": "r",
      "unknown_field": {"x": 1}, "top_k_is_null": null)");
  ASSERT_FALSE(p.error) << p.error->message;
  const ApiRequest& r = p.request;
  const SamplingParams& s = r.sampling;
  EXPECT_EQ(s.temperature, 1);
  EXPECT_EQ(s.top_p, 0.5);
  EXPECT_EQ(s.top_k, 7);
  EXPECT_EQ(s.min_p, 0.1);
  EXPECT_EQ(s.repetition_penalty, 1.5);
  EXPECT_EQ(s.presence_penalty, -1);
  EXPECT_EQ(s.frequency_penalty, 2);
  EXPECT_EQ(r.seed, ~std::uint64_t{0});
  ASSERT_EQ(s.logit_bias.size(), 2u);
  EXPECT_EQ(s.logit_bias[1], (std::pair<TokenId, float>(6, 3.5f)));
  EXPECT_EQ(r.bad_words, std::vector<std::string>{"a"});
  EXPECT_EQ(s.allowed_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(r.end.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(r.end.stop_ids, std::vector<TokenId>{9});
  EXPECT_EQ(r.end.min_tokens, 3);
  EXPECT_TRUE(r.end.ignore_eos && r.end.include_stop && r.form.stream && r.form.include_usage &&
              r.form.continuous_usage);
  EXPECT_TRUE(r.form.return_token_ids && r.form.return_timings && !r.form.skip_special);
  EXPECT_EQ(r.turn.priority, -4);
  EXPECT_NE(r.turn.cache_salt, 0u);
  EXPECT_EQ(r.turn.rid, "r");
  EXPECT_EQ(r.n, 3);
  EXPECT_EQ(r.best_of, 3);
  EXPECT_EQ(r.facts.top_logprobs, 2);
  EXPECT_EQ(r.end.max_tokens, 50);
  EXPECT_EQ(r.form.stream_interval, 4);
}

struct Refusal {
  Parsed parsed;
  std::string param, message;
};

void expect_refusals(std::span<const Refusal> refusals) {
  for (const Refusal& one : refusals) {
    ASSERT_TRUE(one.parsed.error) << one.message;
    EXPECT_EQ(one.parsed.error->status, 400);
    EXPECT_EQ(one.parsed.error->param, one.param);
    EXPECT_EQ(one.parsed.error->message, one.message);
  }
}

TEST(OpenAiRequest, errors_name_the_path_of_the_field) {
  const Refusal refusals[] = {
      {chat(R"("temperature": "hot")"), "temperature", "temperature is a text; expected a number"},
      {chat(R"("temperature": -1)"), "temperature",
       "temperature is -1.0; it must be at least 0.0 and at most 100.0"},
      {chat(R"("top_p": 0)"), "top_p", "top_p is 0.0; it must be above 0.0 and at most 1.0"},
      {chat(R"("max_tokens": 1.5)"), "max_tokens",
       "max_tokens is 1.5; it must be an integer from 1 to 2147483647"},
      {chat(R"("max_tokens": 99999999999999999999)"), "max_tokens",
       "max_tokens is 99999999999999999999; it must be an integer from 1 to 2147483647"},
      {chat(R"("stream": 1)"), "stream", "stream is an integer; expected a boolean"},
      {chat(R"("stop": ["a", 1])"), "stop[1]", "stop[1] is an integer; expected a text"},
      {chat(R"("stop": {})"), "stop", "stop is an object; expected a text or a list of texts"},
      {chat(R"("stop_token_ids": [1000])"), "stop_token_ids",
       "stop_token_ids holds token 1000; the model's are 0 to 999"},
      {chat(R"("logit_bias": {"x": 1})"), "logit_bias",
       "logit_bias names token \"x\"; expected an id from 0 to 999"},
      {chat(R"("logit_bias": {"1": 101})"), "logit_bias",
       "logit_bias of token 1 is 101; it must be a number from -100 to 100"},
      {chat(R"("logit_bias": {"1": 5, "01": 6})"), "logit_bias", "logit_bias names token 1 twice"},
      {chat(R"("stream_options": {"include_usage": true})"), "stream_options",
       "stream_options are given, but stream is not true"},
      {chat(R"("stream_options": {"include_usage": 3}, "stream": true)"),
       "stream_options.include_usage",
       "stream_options.include_usage is an integer; expected a boolean"},
      {chat(R"("top_logprobs": 2)"), "top_logprobs",
       "top_logprobs is given, but logprobs is not true"},
      {chat(R"("n": 4, "best_of": 2)"), "best_of", "best_of is 2, less than n, which is 4"},
      {chat(R"("best_of": 2, "stream": true)"), "best_of",
       "best_of above n cannot be streamed: the best are known at the end"},
      {chat(R"("n": 129)"), "n", "n is 129; it must be an integer from 1 to 128"},
      {completion(R"("max_tokens": 3)"), "prompt", "prompt is missing"},
      {completion(R"("prompt": [])"), "prompt",
       "prompt is empty; expected a text, a list of texts, token ids, or lists of token ids below "
       "1000"},
      {completion(R"("prompt": [[1], [2000]])"), "prompt",
       "prompt holds 2000, which is no token id; expected a text, a list of texts, token ids, or "
       "lists of token ids below 1000"},
      {completion(R"("prompt": "x", "suffix": "y")"), "suffix",
       "suffix is not supported: the model writes forwards only"},
      {completion(R"("prompt": "x", "max_tokens": 0)"), "max_tokens",
       "max_tokens is 0; without echo it must be at least 1"},
      {completion(R"("prompt": ["x", "y"], "n": 65)"), "n",
       "2 prompts with 65 answers each are too many; one request may have 128 answers"},
      {messages("[]"), "messages", "messages is empty; expected at least one message"},
      {messages("{}"), "messages", "messages is an object; expected a list of objects"},
      {messages(R"([3])"), "messages[0]", "messages[0] is an integer; expected an object"},
      {messages(R"([{"role": "user"}])"), "messages[0].content", "messages[0].content is missing"},
      {messages(R"([{"role": "king", "content": ""}])"), "messages[0].role",
       "messages[0].role is \"king\"; expected one of "
       "[\"system\",\"developer\",\"user\",\"assistant\",\"tool\",\"function\"]"},
      {messages(R"([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])"),
       "messages[0].content[0].type",
       "messages[0].content[0].type is \"image_url\"; the model reads text only: expected "
       "{\"type\": \"text\", \"text\": ...}"},
      {messages(R"([{"role": "user", "content": [{"type": "text", "text": 5}]}])"),
       "messages[0].content[0].text", "messages[0].content[0].text is an integer; expected a text"},
      {messages(R"([{"role": "user", "content": "x"}, {"role": "assistant"}])"),
       "messages[1].content", "messages[1].content is missing, and so are tool_calls"},
      {messages(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f",
          "arguments": "[1]"}}]}])"),
       "messages[0].tool_calls[0].function.arguments",
       "messages[0].tool_calls[0].function.arguments are no JSON object: \"[1]\""},
      {chat(R"("tool_choice": "required")"), "tool_choice",
       "tool_choice asks for a call, but tools is empty"},
      {chat(R"("tools": [{"type": "function", "function": {"name": "a b"}}])"),
       "tools[0].function.name",
       "tools[0].function.name is \"a b\"; it may not be empty or hold blanks, < or >"},
      {chat(R"("tools": [{"type": "function", "function": {}}])"), "tools[0].function.name",
       "tools[0].function.name is missing"},
      {chat(R"("tools": [{"type": "function", "function": {"name": "f"}}],
               "tool_choice": {"type": "function", "function": {"name": "g"}})"),
       "tool_choice", "tool_choice names function \"g\", which tools lack"},
      {chat(R"("response_format": {"type": "json_schema"})"), "response_format.json_schema",
       "response_format.json_schema is missing"},
      {chat(R"("response_format": {"type": "regex", "pattern": "a+"})"), "response_format.regex",
       "response_format.regex is missing"},
      {chat(R"("response_format": {"type": "ebnf", "ebnf": ""})"), "response_format.ebnf",
       "response_format.ebnf is empty; expected a text"},
      {chat(R"("response_format": {"type": "xml"})"), "response_format.type",
       "response_format.type is \"xml\"; expected one of "
       "[\"text\",\"json_object\",\"json_schema\",\"regex\",\"ebnf\",\"grammar\",\"json\","
       "\"structural_tag\"]"},
      {chat(R"("guided_regex": "a", "guided_json": {})"), "guided_regex",
       "guided_regex cannot be combined with another constraint of the same request"},
      {chat(R"("chat_template_kwargs": {"enable_thinking": 1})"), "chat_template_kwargs",
       "chat_template_kwargs.enable_thinking is an integer; expected a boolean"},
      {anthropic(R"("messages": [{"role": "user", "content": [{"type": "image"}]}])"),
       "messages[0].content[0].type",
       "messages[0].content[0].type is \"image\"; the model reads text, document, search_result, "
       "thinking, tool_use and tool_result only"},
      {parse("{}", Api::kMessages, read_anthropic), "max_tokens", "max_tokens is missing"},
      {chat(R"("allowed_token_ids": [])"), "allowed_token_ids",
       "allowed_token_ids is empty; expected at least one token"},
      {parse("[]", Api::kChat, read_chat), "", "the request is a list; expected an object"}};
  expect_refusals(refusals);
}

TEST(OpenAiRequest, errors_of_constraints_and_of_other_dialects_do_so_too) {
  const Refusal refusals[] = {
      {chat(R"("guided_choice": [])"), "guided_choice",
       "guided_choice is empty; expected at least one text"},
      {chat(R"("structured_outputs": {"choice": []})"), "structured_outputs.choice",
       "structured_outputs.choice is empty; expected at least one text"},
      {responses(R"("input": "x", "previous_response_id": "r")"), "previous_response_id",
       "previous_response_id is not supported: nothing is stored; send the whole conversation as "
       "input"},
      {responses(R"("input": [{"type": "image"}])"), "input[0].type",
       "input[0].type is \"image\"; expected one of "
       "[\"message\",\"function_call\",\"function_call_output\",\"reasoning\"]"},
      {chat(R"("structured_outputs": {"choices": ["a"]})"), "structured_outputs",
       "structured_outputs holds no constraint; give one of json, regex, choice, grammar, "
       "json_object and structural_tag"},
      {generate(R"("input_ids": "x")"), "input_ids",
       "input_ids is a text; expected token ids, or lists of token ids below 1000"},
      {generate(R"("input_ids": [1, "2"])"), "input_ids",
       "input_ids holds a text, which is no token id; expected token ids, or lists of token ids "
       "below 1000"},
      {generate(R"("text": [1])"), "text",
       "text holds token ids; expected a text or a list of texts"},
      {generate(R"("text": "x", "sampling_params": {"max_new_tokens": -1})"),
       "sampling_params.max_new_tokens",
       "sampling_params.max_new_tokens is -1; it must be an integer from 0 to 2147483647"}};
  expect_refusals(refusals);
}

TEST(OpenAiRequest, cached_prefixes_are_shared_among_equal_salts_and_keys) {
  const auto salt = [](const std::string& fields) {
    return generate(R"("text": "x")" + fields).request.turn.cache_salt;
  };
  EXPECT_EQ(salt(""), salt(R"(, "cache_salt": "", "extra_key": "")"));
  EXPECT_EQ(salt(R"(, "extra_key": "k")"), salt(R"(, "extra_key": "k")"));
  EXPECT_NE(salt(""), salt(R"(, "extra_key": "k")"));
  EXPECT_NE(salt(R"(, "cache_salt": "sk")"), salt(R"(, "cache_salt": "s", "extra_key": "k")"));
}

TEST(OpenAiRequest, prompts_are_texts_or_tokens_one_or_many) {
  EXPECT_EQ(completion(R"("prompt": "a")").request.prompts[0].text, "a");
  EXPECT_FALSE(completion(R"("prompt": "a")").request.batch);
  EXPECT_EQ(completion(R"("prompt": [1, 2])").request.prompts[0].tokens,
            (std::vector<TokenId>{1, 2}));
  const Parsed texts = completion(R"("prompt": ["a", "b"])");
  ASSERT_EQ(texts.request.prompts.size(), 2u);
  EXPECT_EQ(texts.request.prompts[1].text, "b");
  const Parsed lists = completion(R"("prompt": [[1], [2, 3]])");
  ASSERT_EQ(lists.request.prompts.size(), 2u);
  EXPECT_EQ(lists.request.prompts[1].tokens, (std::vector<TokenId>{2, 3}));
  EXPECT_TRUE(lists.request.batch);
}

TEST(OpenAiRequest, conversations_become_what_templates_expect) {
  const Parsed p = messages(R"([
    {"role": "developer", "content": "be brief"},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": null, "reasoning": "why", "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}},
      {"id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}}]},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "42"}]}])");
  ASSERT_FALSE(p.error) << p.error->message;
  EXPECT_EQ(json_of(*p.request.chat),
            R"([{"role":"system","content":"be brief"},{"role":"user","content":"ab"},)"
            R"({"role":"assistant","content":"","reasoning_content":"why","tool_calls":[)"
            R"({"id":"c1","type":"function","function":{"name":"f","arguments":{"x":1}}},)"
            R"({"id":"c2","type":"function","function":{"name":"g","arguments":{}}}]},)"
            R"({"role":"tool","content":"42","tool_call_id":"c1"}])");
  const Parsed thoughts = messages(R"([
    {"role": "assistant", "content": "a", "reasoning": "x", "thinking": "why"},
    {"role": "assistant", "content": "a", "thinking": null, "reasoning_content": "why"}])");
  ASSERT_FALSE(thoughts.error) << thoughts.error->message;
  for (const Json& message : thoughts.request.chat->messages)
    EXPECT_EQ(*message.find("reasoning_content"), Json("why"));
  const Parsed nothing = messages(R"([{"role": "assistant", "content": null},
    {"role": "tool", "tool_call_id": "c1", "content": null}])");
  ASSERT_FALSE(nothing.error) << nothing.error->message;
  EXPECT_EQ(json_of(*nothing.request.chat), R"([{"role":"assistant","content":""},)"
                                            R"({"role":"tool","content":"","tool_call_id":"c1"}])");
}

TEST(OpenAiRequest, thinking_is_switched_in_every_clients_words) {
  const auto kwargs = [](const std::string& fields) {
    const Parsed p = chat(fields);
    EXPECT_FALSE(p.error);
    return dump_json(p.request.chat->kwargs);
  };
  EXPECT_EQ(kwargs(""), "{}");
  EXPECT_EQ(kwargs(R"("chat_template_kwargs": {"enable_thinking": false})"),
            R"({"enable_thinking":false})");
  EXPECT_EQ(kwargs(R"("thinking": {"type": "disabled"})"), R"({"enable_thinking":false})");
  EXPECT_EQ(kwargs(R"("thinking": {"type": "enabled", "clear_thinking": false})"),
            R"({"enable_thinking":true,"clear_thinking":false})");
  EXPECT_EQ(kwargs(R"("reasoning_effort": "none")"), R"({"enable_thinking":false})");
  EXPECT_EQ(kwargs(R"("reasoning_effort": "high")"), R"({"reasoning_effort":"high"})");
  EXPECT_EQ(kwargs(R"("reasoning": {"effort": "none"})"), R"({"enable_thinking":false})");
  EXPECT_EQ(kwargs(R"("enable_thinking": false)"), R"({"enable_thinking":false})");
  EXPECT_EQ(chat(R"("thinking_token_budget": 7)").request.end.thinking_budget, 7);
  EXPECT_FALSE(chat(R"("thinking_token_budget": -1)").request.end.thinking_budget);
  EXPECT_FALSE(chat(R"("thinking_token_budget": -1)").error);
  EXPECT_EQ(completion(R"("prompt": "x", "thinking_token_budget": 7)").request.end.thinking_budget,
            7);
  EXPECT_EQ(generate(R"("text": "x", "sampling_params": {"thinking_budget": 7})")
                .request.end.thinking_budget,
            7);
  EXPECT_EQ(
      completion(R"("prompt": "x", "thinking_budget": 7, "guided_regex": "a")").error->message,
      "thinking_budget cannot be combined with guided_regex, which holds from the answer's "
      "first token");
  EXPECT_TRUE(chat(R"("no_stop_trim": true)").request.end.include_stop);
  // The most direct words win.
  EXPECT_EQ(
      kwargs(
          R"("thinking": {"type": "disabled"}, "chat_template_kwargs": {"enable_thinking": true})"),
      R"({"enable_thinking":true})");
}

TEST(OpenAiRequest, constraints_of_every_dialect_become_grammars) {
  using Kind = GrammarSpec::Kind;
  const auto spec = [](const std::string& fields) {
    const Parsed p = chat(fields);
    EXPECT_FALSE(p.error) << fields;
    return p.request.grammar ? *p.request.grammar : GrammarSpec{.text = "none"};
  };
  for (const char* other : {"", R"(, "regex": "a+")", R"(, "json_schema": {"schema": {}})"})
    EXPECT_EQ(spec(str(R"("response_format": {"type": "text")", other, "}")).text, "none");
  EXPECT_EQ(spec(R"("response_format": {"type": "json_object", "schema": {"a": 1}})").text,
            R"({"a":1})");
  EXPECT_EQ(spec(R"("response_format": {"type": "json_object"})").kind, Kind::kJsonObject);
  const std::pair<const char*, std::pair<Kind, const char*>> cases[] = {
      {R"("response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}})",
       {Kind::kJsonSchema, R"({"type":"object"})"}},
      {R"("structured_outputs": {"json": {"type": "null"}})",
       {Kind::kJsonSchema, R"({"type":"null"})"}},
      {R"("structured_outputs": {"regex": "a+"})", {Kind::kRegex, "a+"}},
      {R"("structured_outputs": {"grammar": "root ::= x"})", {Kind::kEbnf, "root ::= x"}},
      {R"("guided_json": "{}")", {Kind::kJsonSchema, "{}"}},
      {R"("guided_regex": "b")", {Kind::kRegex, "b"}},
      {R"("guided_grammar": "g")", {Kind::kEbnf, "g"}},
      {R"("regex": "c")", {Kind::kRegex, "c"}},
      {R"("ebnf": "e")", {Kind::kEbnf, "e"}},
      {R"("grammar": "h")", {Kind::kEbnf, "h"}},
      {R"("json_schema": "{\"a\":1}")", {Kind::kJsonSchema, R"({"a":1})"}},
      {R"("structural_tag": "{\"type\":\"structural_tag\"}")",
       {Kind::kStructuralTag, R"({"type":"structural_tag"})"}}};
  for (const auto& [fields, expected] : cases) {
    EXPECT_EQ(spec(fields).kind, expected.first) << fields;
    EXPECT_EQ(spec(fields).text, expected.second) << fields;
  }
  EXPECT_EQ(spec(R"("structured_outputs": {"choice": ["a", "b"]})").choices.size(), 2u);
  EXPECT_EQ(spec(R"("guided_choice": ["a", "b"])").kind, Kind::kChoice);
  const Parsed tag = generate(R"("text": "x", "sampling_params": {"structural_tag": "{}"})");
  ASSERT_TRUE(tag.request.grammar);
  EXPECT_EQ(tag.request.grammar->kind, Kind::kStructuralTag);
}

TEST(OpenAiRequest, an_empty_constraint_is_refused) {
  EXPECT_EQ(chat(R"("structured_outputs": {"regex": ""})").error->message,
            "structured_outputs.regex is empty; expected a text");
  EXPECT_EQ(chat(R"("guided_regex": "")").error->message, "guided_regex is empty; expected a text");
}

TEST(OpenAiRequest, texts_get_what_the_tokenizer_puts_around_them) {
  const auto adds = [](const Parsed& p) { return encode_options(p.request).add_special_tokens; };
  EXPECT_TRUE(adds(completion(R"("prompt": "x")")) && adds(generate(R"("text": "x")")));
  EXPECT_FALSE(adds(completion(R"("prompt": "x", "add_special_tokens": false)")));
  EXPECT_FALSE(adds(chat("")));
}

TEST(OpenAiRequest, calls_are_not_continued) {
  const Parsed p = messages(R"([{"role": "assistant", "tool_calls": [{"function":
      {"name": "f"}}]}], "continue_final_message": true)");
  ASSERT_TRUE(p.error);
  EXPECT_EQ(p.error->param, "continue_final_message");
}

TEST(OpenAiRequest, routed_experts_are_not_streamed) {
  const std::string fields = R"("stream": true, "return_routed_experts": true)";
  for (const Parsed& p : {chat(fields), completion(R"("prompt": "x", )" + fields)}) {
    ASSERT_TRUE(p.error);
    EXPECT_EQ(p.error->message, "return_routed_experts cannot be streamed; use /generate");
  }
  EXPECT_TRUE(chat(R"("return_routed_experts": true)").request.facts.routed_experts);
}

TEST(OpenAiRequest, a_wrong_item_is_named_by_its_place) {
  for (const auto& [parsed, place] :
       {std::pair{chat(R"("stop_token_ids": [5, "a"])"), "stop_token_ids[1]"},
        {responses(R"("input": [{"role": "user", "content": ["x", {"type": "input_image"}]}])"),
         "input[0].content[1].type"}}) {
    ASSERT_TRUE(parsed.error) << place;
    EXPECT_EQ(parsed.error->param, place);
  }
}

TEST(GenerateRequest, sampling_params_arrive) {
  const Parsed p = generate(R"("input_ids": [1, 2], "return_logprob": true,
      "top_logprobs_num": 2, "logprob_start_len": 0, "return_routed_experts": true,
      "sampling_params": {"max_new_tokens": 4, "temperature": 0, "top_k": -1, "n": 2,
      "stop_token_ids": [5], "ignore_eos": true, "no_stop_trim": true, "sampling_seed": 3})");
  ASSERT_FALSE(p.error) << p.error->message;
  EXPECT_EQ(p.request.prompts.size(), 1u);
  EXPECT_EQ(p.request.end.max_tokens, 4);
  EXPECT_EQ(p.request.sampling.top_k, 0);
  EXPECT_TRUE(p.request.sampling.greedy() && p.request.end.ignore_eos &&
              p.request.end.include_stop);
  EXPECT_EQ(p.request.facts.top_logprobs, 2);
  EXPECT_EQ(p.request.facts.prompt_logprobs, 2);
  EXPECT_EQ(p.request.n, 2);
  EXPECT_EQ(p.request.seed, 3u);
}

TEST(GenerateRequest, a_list_of_prompts_has_fields_of_each) {
  const auto read = [](const std::string& fields) {
    return parse_generate(parse_json("{" + fields + "}").value(), {config(), 1000});
  };
  const auto all =
      read(R"("text": ["a", "b"], "priority": 7, "sampling_params": [{"n": 2, "temperature": 0},
      {"max_new_tokens": 3, "regex": "x"}], "rid": ["r", "s"], "return_logprob": [true, false],
      "top_logprobs_num": [1, 2], "logprob_start_len": 0, "stream": true)");
  ASSERT_TRUE(all.ok()) << all.error().message;
  ASSERT_EQ(all.value().size(), 2u);
  const ApiRequest &a = all.value()[0], &b = all.value()[1];
  EXPECT_EQ(a.prompts[0].text + b.prompts[0].text + a.turn.rid + b.turn.rid, "abrs");
  EXPECT_TRUE(a.form.stream && b.form.stream && a.sampling.greedy() && !b.sampling.greedy());
  EXPECT_EQ(a.turn.priority + b.turn.priority, 14);
  EXPECT_EQ(a.facts.prompt_logprobs, 1);
  EXPECT_EQ(b.facts.prompt_logprobs, -1);
  EXPECT_EQ(b.end.max_tokens, 3);
  EXPECT_TRUE(!a.grammar && b.grammar);
  EXPECT_EQ(b.first_choice, 2);
  EXPECT_EQ(read(R"("input_ids": [[1], [2]], "sampling_params": {"n": 3})").value()[1].n, 3);
  const auto error = [&](const std::string& fields) { return read(fields).error().message; };
  EXPECT_EQ(error(R"("text": ["a", "b"], "rid": ["r"])"),
            "rid has 1 item for 2 prompts; give one for each, or one for all");
  EXPECT_EQ(error(R"("text": ["a", ["b"]])"), "text[1] is a list of prompts; expected one prompt");
  EXPECT_EQ(error(R"("text": ["a"], "sampling_params": [{"n": 0}])"),
            "sampling_params[0].n is 0; it must be an integer from 1 to 128");
  EXPECT_EQ(error(R"("text": "a", "sampling_params": [{}])"),
            "sampling_params is a list; expected an object");
  EXPECT_EQ(error(R"("text": [])"), "text is empty; expected at least one prompt");
  EXPECT_EQ(error(R"("text": ["a", "b"], "sampling_params": {"n": 65})"),
            "2 prompts with 130 answers are too many; one request may have 128 answers");
}

TEST(RequestReader, describes_what_it_reads) {
  Json schema;
  RequestReader r(schema);
  ApiRequest scratch = default_request(Api::kChat, {config(), 1000});
  read_chat(r, scratch, {config(), 1000});
  const Json* properties = schema.find("properties");
  EXPECT_EQ(dump_json(*properties->find("temperature")),
            R"({"type":"number","minimum":0.0,"maximum":100.0})");
  EXPECT_EQ(dump_json(*schema.find("required")), R"(["messages"])");
  const Json* message = properties->find("messages")->find("items");
  EXPECT_EQ(dump_json(*message->find("required")), R"(["role"])");
  EXPECT_NE(message->find("properties")->find("tool_calls"), nullptr);
  EXPECT_NE(properties->find("response_format")->find("properties")->find("json_schema"), nullptr);
}

}  // namespace
}  // namespace glint
