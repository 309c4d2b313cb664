// Answers of every dialect over real sockets, whole and streamed.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "server/testing.h"

namespace glint {
namespace {

TEST(ServerAnswers, completes_a_text) {
  TestServer server(" world");
  const Json out = server.post("/v1/completions", R"({"model": "tiny", "prompt": "Hello"})");
  EXPECT_EQ(at(out, "object"), "text_completion");
  EXPECT_EQ(at(out, "model"), "tiny");
  EXPECT_EQ(at(out, "choices.0.text"), " world");
  EXPECT_EQ(at(out, "choices.0.finish_reason"), "stop");
  const int answer = static_cast<int>(server.tokenizer().encode(" world").value().size()) + 1;
  EXPECT_EQ(at(out, "usage.completion_tokens"), str(answer));
  EXPECT_EQ(at(out, "usage.total_tokens"), str(answer + std::stoi(at(out, "usage.prompt_tokens"))));
}

TEST(ServerAnswers, chat_separates_thoughts_from_the_answer) {
  TestServer server("Let me think.</think>It is 4.");
  const Json out = server.chat("");
  EXPECT_EQ(at(out, "choices.0.message.content"), "It is 4.");
  EXPECT_EQ(at(out, "choices.0.message.reasoning_content"), "Let me think.");
  EXPECT_EQ(at(out, "choices.0.message.reasoning"), "Let me think.");
  EXPECT_GT(std::stoi(at(out, "usage.completion_tokens_details.reasoning_tokens")), 0);
  server.set_answer("It is 4.");
  const Json off = server.chat(R"(, "chat_template_kwargs": {"enable_thinking": false})");
  EXPECT_EQ(at(off, "choices.0.message.content"), "It is 4.");
  EXPECT_EQ(at(off, "choices.0.message.reasoning_content"), "");
}

TEST(ServerAnswers, a_chat_that_goes_on_within_thoughts_ends_them) {
  TestServer server(" think.</think>It is 4.");
  const Json out = server.post("/v1/chat/completions", R"({"messages": [
      {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "<think>Let me"}],
      "continue_final_message": true})");
  EXPECT_EQ(at(out, "choices.0.message.reasoning_content"), " think.");
  EXPECT_EQ(at(out, "choices.0.message.content"), "It is 4.");
}

TEST(ServerAnswers, a_chat_that_says_nothing_has_an_empty_content) {
  TestServer server("never said");
  const Json out = server.chat(R"(, "reasoning_effort": "none", "stop": "never")");
  EXPECT_EQ(dump_json(*out.find("choices")->as_array()[0].find("message")->find("content")),
            R"("")");
  const Json thought = server.chat(R"(, "max_tokens": 1)");
  EXPECT_EQ(at(thought, "choices.0.message.content"), "null");
}

TEST(ServerAnswers, a_chat_echoes_the_message_that_it_goes_on_with) {
  TestServer server(" and two.");
  const std::string to_assistant =
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant",
          "content": [{"type": "text", "text": " One "}]}], "continue_final_message": true, "n": 2)";
  const Json whole = server.post("/v1/chat/completions", to_assistant + R"(, "echo": true})");
  EXPECT_EQ(at(whole, "choices.1.message.content"), "One and two.");
  std::string streamed;
  for (const std::string& event :
       server.events("/v1/chat/completions", to_assistant + R"(, "echo": true, "stream": true})")) {
    const Json chunk = event == "[DONE]" ? Json() : parse_json(event).value();
    if (at(chunk, "choices.0.index") == "1") streamed += at(chunk, "choices.0.delta.content");
  }
  EXPECT_EQ(streamed, "One and two.");
  const Json without = server.post("/v1/chat/completions", to_assistant + "}");
  EXPECT_EQ(at(without, "choices.0.message.content"), " and two.");
  const Json to_user =
      server.chat(R"(, "echo": true, "chat_template_kwargs": {"enable_thinking": false})");
  EXPECT_EQ(at(to_user, "choices.0.message.content"), " and two.");
}

TEST(ServerAnswers, a_chat_goes_on_with_its_last_message_wherever_else_its_text_stands) {
  const TestServer server;
  const auto prompt = [&](const std::string& user, const std::string& assistant) {
    const Json messages = Json::Array{Json::Object{{"role", "user"}, {"content", user}},
                                      Json::Object{{"role", "assistant"}, {"content", assistant}}};
    return at(server.post("/apply-template", str(R"({"messages": )", dump_json(messages),
                                                 R"(, "continue_final_message": true,
                                                     "add_generation_prompt": false})")),
              "prompt");
  };
  EXPECT_EQ(prompt("Repeat: x </think> y. Then go on.", "x </think> y "),
            "[gMASK]<sop><|user|>Repeat: x </think> y. Then go on.<|assistant|><think>x</think>y");
  EXPECT_TRUE(prompt("\U0010ffff", "a").ends_with("a"));
}

TEST(ServerAnswers, an_answers_form_that_cannot_be_is_told_by_its_field) {
  const TestServer server;
  const auto refusal = [&](const std::string& path, const std::string& body) {
    const HttpResponse response = server.send("POST", path, body);
    EXPECT_EQ(response.status, 400) << response.body;
    const Json out = parse_json(response.body).value();
    return str(at(out, "error.param"), "; ", at(out, "error.message"));
  };
  const std::string schema =
      R"({"type": "json_schema", "name": "n", "schema": {"type": "objekt"}})";
  EXPECT_EQ(refusal("/v1/responses", R"({"input": "x", "text": {"format": )" + schema + "}}"),
            "text.format.schema; text.format.schema: unsupported type \"objekt\"");
  EXPECT_EQ(refusal("/v1/messages", R"({"messages": [{"role": "user", "content": "x"}],
                      "max_tokens": 9, "output_config": {"format": )" +
                                        schema + "}}"),
            "; output_config.format.schema: unsupported type \"objekt\"");
  EXPECT_EQ(refusal("/v1/completions", R"({"prompt": "x", "guided_regex": "("})").substr(0, 28),
            "guided_regex; guided_regex: ");
  EXPECT_EQ(refusal("/v1/responses", R"({"input": "x", "regex": "("})").substr(0, 14),
            "regex; regex: ");
}

TEST(ServerAnswers, a_streamed_chat_is_the_whole_one_in_pieces) {
  TestServer server("Hm, so.</think>One two three \xe2\x82\xac four.");
  const std::string body =
      R"({"messages": [{"role": "user", "content": "Hi"}], "stream": true,
          "stream_options": {"include_usage": true}})";
  const std::vector<std::string> events = server.events("/v1/chat/completions", body);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.back(), "[DONE]");
  std::string reasoning, content;
  int with_role = 0;
  std::set<std::string> ids;
  for (std::size_t i = 0; i + 2 < events.size(); ++i) {
    const Json chunk = parse_json(events[i]).value();
    EXPECT_EQ(at(chunk, "object"), "chat.completion.chunk");
    ids.insert(at(chunk, "id"));
    const bool role = !at(chunk, "choices.0.delta.role").empty();
    with_role += role;
    // No chunk with a role alone: it would look like the first token.
    EXPECT_EQ(role, i == 0);
    EXPECT_EQ(chunk.find("usage"), nullptr);
    reasoning += at(chunk, "choices.0.delta.reasoning_content");
    content += at(chunk, "choices.0.delta.content");
    EXPECT_EQ(at(chunk, "choices.0.finish_reason"), i + 3 == events.size() ? "stop" : "null");
  }
  EXPECT_EQ(with_role, 1);
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_EQ(reasoning, "Hm, so.");
  EXPECT_EQ(content, "One two three \xe2\x82\xac four.");
  const Json last = parse_json(events[events.size() - 2]).value();
  EXPECT_EQ(at(last, "choices"), "[]");
  EXPECT_GT(std::stoi(at(last, "usage.completion_tokens")), 5);
}

TEST(ServerAnswers, the_usage_of_a_chunk_counts_what_there_is_by_then) {
  TestServer server("Hm, so.</think>One two three.");
  const auto ask = [&] {
    return server.events("/v1/chat/completions",
                         str(R"({"stream": true, "stream_options": {"continuous_usage_stats": true},
                                 "messages": [{"role": "user", "content": ")",
                             std::string(1000, '7'), R"("}]})"));
  };
  ask();
  const auto events = ask();
  const Json last = parse_json(events[events.size() - 2]).value();
  const std::string reasoning = "usage.completion_tokens_details.reasoning_tokens",
                    cached = "usage.prompt_tokens_details.cached_tokens";
  EXPECT_NE(at(last, cached), "0");
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    const Json chunk = parse_json(events[i]).value();
    EXPECT_EQ(at(chunk, cached), at(last, cached));
    EXPECT_NE(at(chunk, reasoning), "0");
    if (!at(chunk, "choices.0.delta.content").empty()) {
      EXPECT_EQ(at(chunk, reasoning), at(last, reasoning));
    }
  }
}

TEST(ServerAnswers, a_call_that_was_cut_off_holds_no_others) {
  const std::string text =
      "</think><tool_call>f<arg_key>a</arg_key><arg_value>[\"x</arg_value></tool_call><tool_call>f";
  TestServer server(text);
  const Json answer = server.chat(
      str(R"(, "max_tokens": )", server.tokenizer().encode(text).value().size(),
          R"(, "tool_choice": "required", "tools": [{"type": "function", "function": {"name": "f",
          "parameters": {"properties": {"a": {"type": "array"}}, "required": ["a"]}}}])"));
  EXPECT_EQ(at(answer, "choices.0.finish_reason"), "length");
  EXPECT_EQ(at(answer, "choices.0.message.tool_calls.0.function.arguments"), "{}");
  EXPECT_EQ(at(answer, "choices.0.message.tool_calls.1"), "");
}

TEST(ServerAnswers, stream_interval_makes_fewer_chunks_of_the_same_text) {
  TestServer server("a b c d e f g h i j k l m n o p");
  const auto run = [&](int interval) {
    return server.events(
        "/v1/completions",
        str(R"({"prompt": "x", "max_tokens": 99, "stream": true, "stream_interval": )", interval,
            "}"));
  };
  const auto text = [](const std::vector<std::string>& events) {
    std::string all;
    for (std::size_t i = 0; i + 1 < events.size(); ++i)
      all += at(parse_json(events[i]).value(), "choices.0.text");
    return all;
  };
  const std::vector<std::string> each = run(1), few = run(8);
  EXPECT_EQ(text(each), "a b c d e f g h i j k l m n o p");
  EXPECT_EQ(text(few), text(each));
  EXPECT_GT(each.size(), 2 * few.size());
}

constexpr const char* kTools =
    R"(, "tools": [{"type": "function", "function": {"name": "get_weather", "parameters":
        {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}])";

TEST(ServerAnswers, tool_calls_arrive_whole_and_streamed) {
  TestServer server(kCall);
  const Json out = server.chat(kTools);
  EXPECT_EQ(at(out, "choices.0.finish_reason"), "tool_calls");
  EXPECT_EQ(at(out, "choices.0.message.content"), "Let me see.");
  EXPECT_EQ(at(out, "choices.0.message.tool_calls.0.function.name"), "get_weather");
  const std::string arguments = at(out, "choices.0.message.tool_calls.0.function.arguments");
  EXPECT_EQ(parse_json(arguments).value(), parse_json(R"({"city": "Paris", "days": 2})").value());

  std::string streamed, name, id;
  const auto events = server.events(
      "/v1/chat/completions",
      str(R"({"messages": [{"role": "user", "content": "Hi"}], "stream": true)", kTools, "}"));
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    const Json chunk = parse_json(events[i]).value();
    name += at(chunk, "choices.0.delta.tool_calls.0.function.name");
    id += at(chunk, "choices.0.delta.tool_calls.0.id");
    streamed += at(chunk, "choices.0.delta.tool_calls.0.function.arguments");
  }
  EXPECT_EQ(name, "get_weather");
  EXPECT_EQ(streamed, arguments);
  EXPECT_TRUE(id.starts_with("call_")) << id;
}

TEST(ServerAnswers, messages_stream_in_anthropics_order) {
  TestServer server(kCall);
  const std::string body = R"({"model": "tiny", "max_tokens": 1500, "stream": true,
      "thinking": {"type": "enabled", "budget_tokens": 1024},
      "messages": [{"role": "user", "content": "Hi"}],
      "tools": [{"name": "get_weather", "input_schema": {"type": "object", "properties":
        {"city": {"type": "string"}, "days": {"type": "integer"}}}}]})";
  std::vector<std::string> names;
  std::string thinking, text, json;
  for (const std::string& event : server.events("/v1/messages", body)) {
    const std::string name = event.substr(0, event.find(':'));
    const Json data = parse_json(event.substr(name.size() + 2)).value();
    EXPECT_EQ(at(data, "type"), name);
    if (names.empty() || name != names.back() || name != "content_block_delta")
      names.push_back(name);
    thinking += at(data, "delta.thinking");
    text += at(data, "delta.text");
    json += at(data, "delta.partial_json");
    if (name == "message_delta") {
      EXPECT_EQ(at(data, "delta.stop_reason"), "tool_use");
      EXPECT_GT(std::stoi(at(data, "usage.output_tokens")), 3);
    }
  }
  const std::string start = "content_block_start", delta = "content_block_delta",
                    stop = "content_block_stop";
  EXPECT_EQ(names,
            (std::vector<std::string>{"message_start", start, "ping", delta, stop, start, delta,
                                      stop, start, delta, stop, "message_delta", "message_stop"}));
  EXPECT_EQ(thinking, "Check.");
  EXPECT_EQ(text, "Let me see.");
  EXPECT_EQ(parse_json(json).value(), parse_json(R"({"city": "Paris", "days": 2})").value());
}

TEST(ServerAnswers, messages_whole) {
  TestServer server("Fine.");
  const Json out = server.post(
      "/v1/messages",
      R"({"model": "tiny", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_EQ(at(out, "content"), R"([{"type":"text","text":"Fine."}])");
  EXPECT_EQ(at(out, "stop_reason"), "end_turn");
  EXPECT_EQ(at(out, "role"), "assistant");
  const Json count =
      server.post("/v1/messages/count_tokens",
                  R"({"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_EQ(at(count, "input_tokens"), at(out, "usage.input_tokens"));
}

TEST(ServerAnswers, a_request_for_messages_needs_no_model_and_answers_name_the_request) {
  TestServer server("Yes.");
  const std::string body = R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": )";
  EXPECT_EQ(at(server.post("/v1/messages", body + "9}"), "model"), "tiny");
  for (const char* rest : {"9}", "9, \"stream\": true}", "9, \"stop\": 5}"}) {
    const HttpResponse answer =
        server.send("POST", "/v1/messages", body + rest, {{"x-request-id", "mine"}});
    EXPECT_EQ(answer.header("request-id"), "mine") << rest;
  }
  const HttpResponse refused =
      server.send("POST", "/v1/messages", body + "32000}", {{"x-request-id", "mine"}});
  EXPECT_EQ(refused.status, 400);
  const Json error = parse_json(refused.body).value();
  EXPECT_EQ(at(error, "request_id"), "mine");
  EXPECT_NE(at(error, "error.message").find("exceed context limit"), std::string::npos);
}

TEST(ServerAnswers, drafts_are_no_predictions_of_the_client) {
  TestServer server("Yes.");
  const Json out = server.chat("");
  EXPECT_EQ(at(out, "usage.completion_tokens_details").find("prediction"), std::string::npos);
}

TEST(ServerAnswers, stop_strings_end_the_answer_where_they_begin) {
  TestServer server("one two three four five six seven eight nine ten");
  const Json out =
      server.post("/v1/completions", R"({"prompt": "x", "max_tokens": 99, "stop": ["e fo"]})");
  EXPECT_EQ(at(out, "choices.0.text"), "one two thre");
  EXPECT_EQ(at(out, "choices.0.finish_reason"), "stop");
  EXPECT_EQ(at(out, "choices.0.stop_reason"), "e fo");
  const Json kept = server.post(
      "/v1/completions",
      R"({"prompt": "x", "max_tokens": 99, "stop": "e fo", "include_stop_str_in_output": true})");
  EXPECT_EQ(at(kept, "choices.0.text"), "one two three fo");
}

TEST(ServerAnswers, no_experts_are_told_behind_a_stop_string) {
  TestServerOptions options;
  options.engine.scheduler.max_drafts = options.executor.info.max_drafts = 7;
  options.engine.scheduler.adapt_drafts = false;
  const TestServer server("one two three four five six seven eight nine ten", options);
  const Json out = server.post("/generate", R"({"input_ids": [5, 6, 7], "sampling_params":
      {"stop": "two"}, "return_routed_experts": true})");
  EXPECT_EQ(at(out, "meta_info.completion_tokens"), "2");
  EXPECT_EQ(at(out, "meta_info.routed_experts_shape"), "[4,3,2]");
}

TEST(ServerAnswers, stop_tokens_are_in_the_text_on_request) {
  TestServer server("one two three");
  const TokenId last = server.tokenizer().encode("one two three").value().back();
  const std::string fields =
      str(R"({"prompt": "x", "max_tokens": 99, "logprobs": 0, "stop_token_ids": [)", last, "]");
  const Json cut = server.post("/v1/completions", fields + "}");
  const Json kept =
      server.post("/v1/completions", fields + R"(, "include_stop_str_in_output": true})");
  EXPECT_EQ(at(kept, "choices.0.text"), "one two three");
  EXPECT_EQ(at(kept, "choices.0.text"),
            at(cut, "choices.0.text") + server.tokenizer().decode({&last, 1}));
  EXPECT_EQ(at(kept, "choices.0.stop_reason"), str(last));
  const auto num_logprobs = [](const Json& out) {
    return parse_json(at(out, "choices.0.logprobs.tokens")).value().as_array().size();
  };
  EXPECT_EQ(num_logprobs(kept), num_logprobs(cut) + 1);
}

TEST(ServerAnswers, clients_that_read_ids_get_a_log_probability_for_each) {
  TestServer server("one two");
  const auto check = [](const Json& out, std::string_view path) {
    EXPECT_EQ(str(parse_json(at(out, path)).value().as_array().size()),
              at(out, "usage.completion_tokens"));
  };
  for (const std::string field :
       {R"(, "return_token_ids": true)", R"(, "return_tokens_as_token_ids": true)"}) {
    check(server.post("/v1/completions", R"({"prompt": "x", "logprobs": 0)" + field + "}"),
          "choices.0.logprobs.tokens");
    check(server.chat(R"(, "logprobs": true)" + field), "choices.0.logprobs.content");
  }
}

TEST(ServerAnswers, max_tokens_cut_with_length) {
  TestServer server("one two three four five six seven eight nine ten");
  const Json out = server.post("/v1/completions", R"({"prompt": "x", "max_tokens": 2})");
  EXPECT_EQ(at(out, "choices.0.finish_reason"), "length");
  EXPECT_EQ(at(out, "usage.completion_tokens"), "2");
}

TEST(ServerAnswers, many_prompts_and_choices_keep_their_indices) {
  TestServerOptions options;
  options.executor.script = [](const Request& request) {
    return std::vector<TokenId>{request.prompt[0] + 100};
  };
  TestServer server("", options);
  const Json out = server.post("/v1/completions",
                               R"({"prompt": [[1, 2], [3]], "n": 2, "return_token_ids": true})");
  ASSERT_EQ(out.find("choices")->as_array().size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(at(out, str("choices.", i, ".index")), str(i));
    EXPECT_EQ(at(out, str("choices.", i, ".token_ids.0")), i < 2 ? "101" : "103");
  }
  EXPECT_EQ(at(out, "usage.prompt_tokens"), "3");
  EXPECT_EQ(at(out, "choices.2.prompt_token_ids"), "[3]");
  std::string told[4];  // each choice's first chunk tells its prompt
  for (const std::string& event :
       server.events("/v1/completions", R"({"prompt": [[1, 2], [3]], "n": 2, "stream": true,
                                            "return_token_ids": true})")) {
    if (event == "[DONE]") continue;
    const Json chunk = parse_json(event).value();
    told[std::stoi(at(chunk, "choices.0.index"))] += at(chunk, "choices.0.prompt_token_ids");
  }
  for (int i = 0; i < 4; ++i) EXPECT_EQ(told[i], i < 2 ? "[1,2]" : "[3]");
}

TEST(ServerAnswers, echo_puts_the_prompt_first_and_can_be_all) {
  TestServer server(" world");
  EXPECT_EQ(
      at(server.post("/v1/completions", R"({"prompt": "Hello", "echo": true})"), "choices.0.text"),
      "Hello world");
  const Json all =
      server.post("/v1/completions", R"({"prompt": "Hello", "echo": true, "max_tokens": 0})");
  EXPECT_EQ(at(all, "choices.0.text"), "Hello");
  EXPECT_EQ(at(all, "usage.completion_tokens"), "0");
  server.set_answer("");
  const std::string none = R"({"prompt": "Hello", "echo": true, "max_tokens": 0})";
  EXPECT_EQ(at(server.post("/v1/completions", none), "choices.0.finish_reason"), "length");
  // The prompt's last row draws a token, told or not.
  std::string tokens = "5";
  for (int i = 1; i < 2048; ++i) tokens += ",5";
  const HttpResponse full = server.send(
      "POST", "/v1/completions", R"({"echo": true, "max_tokens": 0, "prompt": [)" + tokens + "]}");
  EXPECT_NE(full.body.find("requested 1 output tokens"), std::string::npos) << full.body;
}

TEST(ServerAnswers, generate_speaks_tokens) {
  TestServerOptions options;
  options.executor.script = [](const Request&) { return std::vector<TokenId>{11, 12, 13}; };
  TestServer server("", options);
  const Json out = server.post("/generate", R"({"input_ids": [5, 6],
      "sampling_params": {"max_new_tokens": 2, "temperature": 0}})");
  EXPECT_EQ(at(out, "output_ids"), "[11,12]");
  EXPECT_EQ(at(out, "meta_info.finish_reason"), R"({"type":"length","length":2})");
  EXPECT_EQ(at(out, "meta_info.prompt_tokens"), "2");
  const Json scored = server.post("/generate", R"({"input_ids": [5, 6, 7], "return_logprob": true,
      "logprob_start_len": 0, "sampling_params": {"max_new_tokens": 0}})");
  EXPECT_EQ(at(scored, "text") + at(scored, "output_ids"), "[]");
  EXPECT_EQ(at(scored, "meta_info.finish_reason"), R"({"type":"length","length":0})");
  EXPECT_NE(at(scored, "meta_info.input_token_logprobs.2"), "");
  EXPECT_EQ(at(scored, "meta_info.output_token_logprobs"), "[]");
  const Json batch = server.post("/generate", R"({"input_ids": [[5], [6]],
      "sampling_params": {"max_new_tokens": 9}})");
  ASSERT_EQ(batch.as_array().size(), 2u);
  EXPECT_EQ(at(batch, "1.output_ids.0"), "11");
  EXPECT_EQ(at(batch, "1.meta_info.finish_reason.type"), "stop");
  const auto events =
      server.events("/generate", R"({"input_ids": [5], "stream": true, "sampling_params": {}})");
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(at(parse_json(events[events.size() - 2]).value(), "output_ids").substr(0, 9),
            "[11,12,13");
}

// They are told by a thread of their own.
TEST(ServerAnswers, many_log_probabilities_are_all_told) {
  TestServerOptions options;
  options.executor.script = [](const Request&) { return std::vector<TokenId>(1000, 11); };
  TestServer server("", options);
  const auto size = [](const Json& out, std::string_view path) {
    return parse_json(at(out, path)).value().as_array().size();
  };
  std::string ids = "[5";
  for (int i = 1; i < 900; ++i) ids += ",5";
  const std::string completion = R"({"max_tokens": 1000, "logprobs": 20, "prompt": )" + ids + "]";
  const Json whole = server.post("/v1/completions", completion + R"(, "prompt_logprobs": 20})");
  EXPECT_EQ(size(whole, "choices.0.logprobs.top_logprobs"), 1000u);
  EXPECT_EQ(size(whole, "choices.0.prompt_logprobs"), 900u);
  const std::string fields = R"("return_logprob": true, "top_logprobs_num": 20,
      "logprob_start_len": 0, "sampling_params": {"max_new_tokens": 3}})";
  for (const char* const stream : {"", R"("stream": true, )"}) {
    const std::string body = str(R"({"input_ids": )", ids, "], ", stream, fields);
    const Json out = *stream ? parse_json(*++server.events("/generate", body).rbegin()).value()
                             : server.post("/generate", body);
    EXPECT_EQ(size(out, "meta_info.input_top_logprobs"), 900u) << stream;
    EXPECT_EQ(at(out, "meta_info.finish_reason.type"), "length") << stream;
  }
  const Json list = server.post("/generate", str(R"({"input_ids": [[5], )", ids, "]], ", fields));
  EXPECT_EQ(size(list, "0.meta_info.input_top_logprobs"), 1u);
  EXPECT_EQ(size(list, "1.meta_info.input_top_logprobs"), 900u);
}

TEST(ServerAnswers, generate_takes_lists_of_prompts_with_fields_of_each) {
  TestServerOptions options;
  options.executor.script = [](const Request& r) { return std::vector<TokenId>(40, r.prompt[0]); };
  TestServer server("", options);
  const std::string body = R"("input_ids": [[5], [6], [7]], "rid": ["a", "b", "c"],
      "sampling_params": [{"max_new_tokens": 1}, {"max_new_tokens": 2, "n": 2},
      {"max_new_tokens": 30}], "return_logprob": [true, false, false])";
  const Json all = server.post("/generate", "{" + body + "}");
  ASSERT_EQ(all.as_array().size(), 4u);
  EXPECT_EQ(at(all, "0.output_ids") + at(all, "2.output_ids"), "[5][6,6]");
  EXPECT_EQ(at(all, "0.meta_info.id") + at(all, "2.meta_info.id") + at(all, "3.meta_info.id"),
            "ab-1c");
  const std::string named = R"({"input_ids": [[5], [6]], "rid": "a"})";
  EXPECT_EQ(at(server.post("/generate", named), "1.meta_info.id"), "a_1");
  EXPECT_NE(at(all, "0.meta_info.output_token_logprobs"), "");
  EXPECT_EQ(at(all, "3.meta_info.output_token_logprobs"), "");
  EXPECT_EQ(server.post("/generate", R"({"input_ids": [[5]]})").as_array().size(), 1u);

  const auto events = server.events("/generate", R"({"stream": true, )" + body + "}");
  std::map<std::string, std::string> last;
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    const Json event = parse_json(events[i]).value();
    last[at(event, "index")] = at(event, "output_ids");
  }
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(last["0"] + last["1"] + last["2"], "[5][6,6][6,6]");
  EXPECT_EQ(last["3"].size(), 61u);
}

TEST(ServerAnswers, bad_words_of_a_list_are_encoded_once) {
  Guarded<std::vector<SamplingParams>> seen;
  TestServerOptions options;
  options.executor.script = [&](const Request& r) {
    auto all = seen.load();
    all.push_back(r.sampling);
    seen.store(all);
    return std::vector<TokenId>{5};
  };
  TestServer server("", options);
  const auto num_encoded = [&](const std::string& params) {
    seen.store({});
    server.post("/generate",
                R"({"input_ids": [[5], [6], [7]], "sampling_params": )" + params + "}");
    std::set<const void*> lists;
    const auto all = seen.load();
    for (const SamplingParams& each : all) {
      EXPECT_GE(each.bad_words.size(), 2u);
      lists.insert(each.bad_words.data());
    }
    return lists.size();
  };
  EXPECT_EQ(num_encoded(R"({"bad_words": ["no"]})"), 1u);
  EXPECT_EQ(num_encoded(R"([{"bad_words": ["a"]}, {"bad_words": ["b"]}, {"bad_words": ["a"]}])"),
            2u);
  num_encoded(R"([{"bad_words": ["no"]}, {"bad_words": [" no"]}, {"bad_words": ["\n no"]}])");
  std::set<std::vector<std::vector<TokenId>>> encoded;
  for (const SamplingParams& each : seen.load())
    encoded.emplace(each.bad_words.begin(), each.bad_words.end());
  EXPECT_EQ(encoded.size(), 1u) << "blanks before a word change nothing";
}

TEST(ServerAnswers, one_prompt_that_fails_fails_its_list) {
  TestServer server("Hello");
  const HttpResponse refused = server.send("POST", "/generate", R"({"input_ids": [[5], [6]],
      "sampling_params": [{}, {"regex": "("}]})");
  EXPECT_EQ(refused.status, 400) << refused.body;
  // The first is answered while the second's grammar takes its time. On a busy machine the grammar
  // may be quicker, and all are refused: then another one.
  HttpResponse told = {.status = 400};
  for (int most = 30; most < 40 && told.status == 400; ++most)
    told = server.send("POST", "/generate",
                       str(R"({"input_ids": [[5], [6], [7]], "stream": true, "sampling_params":
                               [{}, {"regex": "([a-z]{1,)",
                           most, R"(}){1,8}"}, {"regex": "(("}]})"));
  const auto events = TestServer::events_of(told);
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events[events.size() - 2].substr(0, 9), R"({"error":)");
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST(ServerAnswers, equal_prompts_of_a_list_are_drawn_by_themselves_unless_a_seed_is_given) {
  Guarded<std::vector<std::uint64_t>> seeds;
  TestServerOptions options;
  options.executor.script = [&](const Request& r) {
    auto all = seeds.load();
    all.push_back(r.sampling.seed);
    seeds.store(all);
    return std::vector<TokenId>{5};
  };
  TestServer server("", options);
  const auto num_different = [&](const char* path, const std::string& body) {
    seeds.store({});
    server.post(path, body);
    const auto all = seeds.load();
    EXPECT_EQ(all.size(), 3u);
    return std::set(all.begin(), all.end()).size();
  };
  EXPECT_EQ(num_different("/v1/completions", R"({"prompt": ["a", "a", "a"]})"), 3u);
  EXPECT_EQ(num_different("/generate", R"({"text": ["a", "a", "a"]})"), 3u);
  EXPECT_EQ(num_different("/v1/completions", R"({"prompt": ["a", "a", "a"], "seed": 3})"), 1u);
}

TEST(ServerAnswers, weights_have_the_name_that_a_trainer_gives_and_the_checksum_that_it_wrote) {
  TestServerOptions options;
  options.config.trainers.build = [] { return Result<std::string>("b1"); };
  options.config.trainers.checksum_of = [](const std::string& dir) -> Result<std::string> {
    return dir == "there" ? Result<std::string>("abc") : invalid("nothing in " + dir);
  };
  TestServer server(" world", options);
  const auto version = [&] {
    const Json info = parse_json(server.get("/model_info").body).value();
    EXPECT_EQ(at(info, "build"), "b1");
    EXPECT_EQ(at(info, "state"), "ready");
    EXPECT_EQ(at(info, "vocabulary"), server.tokenizer().vocabulary_checksum());
    const Json answer = server.post("/generate", R"({"input_ids": [5]})");
    EXPECT_EQ(at(answer, "meta_info.weight_version"), at(info, "weight_version"));
    return at(info, "weight_version");
  };
  const auto refused = [&](const char* body) {
    const HttpResponse response = server.send("POST", "/update_weights_from_disk", body);
    EXPECT_EQ(response.status, 400);
    return at(parse_json(response.body).value(), "error.message");
  };
  EXPECT_EQ(version(), "default");
  const Json done =
      server.post("/update_weights_from_disk",
                  R"({"model_path": "there", "weight_version": "step-3", "checksum": "abc"})");
  EXPECT_EQ(at(done, "weight_version"), "step-3");
  EXPECT_EQ(at(done, "checksum"), "abc");
  EXPECT_EQ(version(), "step-3");
  EXPECT_NE(refused(R"({"model_path": "there", "weight_version": "x", "checksum": "def"})")
                .find("the weights in there have the checksum abc, and def was expected"),
            std::string::npos);
  EXPECT_EQ(refused(R"({"model_path": "gone", "checksum": "abc"})"), "nothing in gone");
  EXPECT_EQ(version(), "step-3");
  EXPECT_EQ(refused(R"({"model_path": "there", "flush_cache": false})"),
            "flush_cache is false, but keys of other weights are never read; leave it out");
  server.post("/update_weights_from_disk", R"({"model_path": "there"})");
  EXPECT_EQ(version(), "there");
}

TEST(ServerAnswers, timings_come_on_request) {
  TestServer server(" world");
  const std::string body = R"({"prompt": "Hello"})";
  EXPECT_EQ(server.post("/v1/completions", body).find("timings"), nullptr);
  const HttpResponse r = server.send("POST", "/v1/completions", body, {{"x-return-timings", "1"}});
  const Json out = parse_json(r.body).value();
  EXPECT_NE(at(out, "timings.predicted_n"), "");
  EXPECT_EQ(at(out, "timings.predicted_n"), at(out, "usage.completion_tokens"));
}

}  // namespace
}  // namespace glint
