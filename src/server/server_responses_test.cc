// Answers of /v1/responses over real sockets, whole and streamed.
#include <gtest/gtest.h>

#include "server/testing.h"

namespace glint {
namespace {

TEST(ServerResponses, responses_stream_ends_with_what_the_whole_one_says) {
  TestServer server(kCall);
  const std::string fields = R"("input": "Hi", "tools": [{"type": "function", "name": "get_weather",
      "parameters": {"type": "object", "properties": {"city": {"type": "string"},
      "days": {"type": "integer"}}}}])";
  const Json whole = server.post("/v1/responses", "{" + fields + "}");
  EXPECT_EQ(at(whole, "status"), "completed");
  EXPECT_EQ(at(whole, "output.0.type"), "reasoning");
  EXPECT_EQ(at(whole, "output.1.content.0.text"), "Let me see.");
  EXPECT_EQ(at(whole, "output.2.name"), "get_weather");
  std::int64_t sequence = 0;
  Json completed;
  std::string text;
  for (const std::string& event :
       server.events("/v1/responses", "{" + fields + R"(, "stream": true})")) {
    const Json data = parse_json(event.substr(event.find(": ") + 2)).value();
    EXPECT_EQ(at(data, "sequence_number"), str(sequence++));
    if (at(data, "type") == "response.output_text.delta") text += at(data, "delta");
    if (at(data, "type") == "response.completed") completed = *data.find("response");
  }
  EXPECT_EQ(text, "Let me see.");
  ASSERT_TRUE(completed.is_object());
  for (const char* path : {"output.0.content", "output.1.content", "output.2.arguments"})
    EXPECT_EQ(at(completed, path), at(whole, path)) << path;
}

TEST(ServerResponses, responses_tell_the_log_probabilities_of_the_text) {
  TestServer server("Hm.</think>It is 4.");
  const std::string fields =
      R"("input": "Hi", "include": ["message.output_text.logprobs"], "top_logprobs": 1)";
  const Json whole = server.post("/v1/responses", "{" + fields + "}");
  const auto text_of = [](const Json& logprobs) {
    std::string text;
    for (const Json& item : logprobs.as_array()) text += item.find("token")->as_string();
    return text;
  };
  const Json& part = whole.find("output")->as_array()[1].find("content")->as_array()[0];
  EXPECT_EQ(text_of(*part.find("logprobs")), "It is 4.");
  std::string streamed;
  const auto events = server.events("/v1/responses", "{\"stream\": true, " + fields + "}");
  for (const std::string& event : events) {
    const std::string name = "response.output_text.delta: ";
    if (event.starts_with(name))
      streamed += text_of(*parse_json(event.substr(name.size())).value().find("logprobs"));
    const std::string done = "response.output_text.done: ";
    if (event.starts_with(done)) {
      EXPECT_EQ(text_of(*parse_json(event.substr(done.size())).value().find("logprobs")),
                "It is 4.");
    }
  }
  EXPECT_EQ(streamed, "It is 4.");
  EXPECT_EQ(at(server.post("/v1/responses", R"({"input": "Hi"})"), "output.1.content.0.logprobs"),
            "[]");
}

TEST(ServerResponses, the_scores_of_a_stop_string_are_told_as_they_come_and_whole) {
  TestServer server("It is 4.");
  const std::string fields = R"("input": "Hi", "reasoning": {"effort": "none"}, "stop": " 4",
                                "include": ["message.output_text.logprobs"])";
  const std::string logprobs = "output.0.content.0.logprobs";
  const std::string whole = at(server.post("/v1/responses", "{" + fields + "}"), logprobs);
  const std::string last =
      server.events("/v1/responses", R"({"stream": true, )" + fields + "}").back();
  const Json end = parse_json(last.substr(last.find('{'))).value();
  EXPECT_EQ(at(end, "response." + logprobs), whole);
}

// The status of each item of a response, whole and streamed, if it may have `max_tokens`.
std::string statuses(TestServer& server, int max_tokens) {
  const std::string fields =
      str(R"("input": "Hi", "tools": [{"type": "function", "name": "get_weather", "parameters":
             {"type": "object", "properties": {"city": {"type": "string"}}}}],
             "max_output_tokens": )",
          max_tokens);
  std::string out;
  const Json whole = server.post("/v1/responses", "{" + fields + "}");
  for (const Json& item : whole.find("output")->as_array()) out += at(item, "status") + " ";
  out += "|";
  const std::string done = "response.output_item.done: ";
  for (const std::string& event :
       server.events("/v1/responses", R"({"stream": true, )" + fields + "}"))
    if (event.starts_with(done))
      out += " " + at(parse_json(event.substr(done.size())).value(), "item.status");
  return out;
}

TEST(ServerResponses, a_call_is_complete_once_the_model_ended_it) {
  const std::string call = "</think><tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris";
  TestServer server(call + "</arg_value></tool_call>");
  const auto tokens = [&](const std::string& text) {
    return static_cast<int>(server.tokenizer().encode(text).value().size());
  };
  EXPECT_EQ(statuses(server, tokens(call)), "incomplete | incomplete");
  EXPECT_EQ(statuses(server, tokens(call + "</arg_value></tool_call>")), "completed | completed");
}

TEST(ServerResponses, items_come_in_the_order_of_the_answer) {
  TestServer server("One.<tool_call>f</tool_call>Two.");
  const std::string fields = R"("tools": [{"type": "function", "name": "f"}],
      "reasoning": {"effort": "none"}, "input": "Hi")";
  const Json out = server.post("/v1/responses", "{" + fields + "}");
  EXPECT_EQ(at(out, "output.0.content.0.text"), "One.");
  EXPECT_EQ(at(out, "output.1.name"), "f");
  EXPECT_EQ(at(out, "output.2.content.0.text"), "Two.");
  const int most = std::stoi(at(out, "usage.output_tokens")) - 1;
  const Json cut =
      server.post("/v1/responses", str("{\"max_output_tokens\": ", most, ",", fields, "}"));
  EXPECT_EQ(at(cut, "output.1.status"), "completed");
  EXPECT_EQ(at(cut, "output.2.status"), "incomplete");
  const Json message = server.post("/v1/messages", R"({"max_tokens": 99,
      "tools": [{"name": "f", "input_schema": {"type": "object"}}],
      "messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_EQ(at(message, "content.1.name"), "f");
  EXPECT_EQ(at(message, "content.2.text"), "Two.");
}

TEST(ServerResponses, responses_say_how_they_ended) {
  TestServer server("Let me think about this.</think>It is 4.");
  const Json cut = server.post("/v1/responses", R"({"input": "Hi", "max_output_tokens": 2,
                                                    "text": {"verbosity": "low"},
                                                    "truncation": "auto"})");
  EXPECT_EQ(at(cut, "status"), "incomplete");
  EXPECT_EQ(at(cut, "output.0.status"), "incomplete");
  EXPECT_EQ(at(cut, "completed_at"), "null");
  EXPECT_EQ(at(cut, "text.format.type"), "text");
  EXPECT_EQ(at(cut, "text.verbosity"), "low");
  EXPECT_EQ(at(cut, "truncation"), "disabled");  // a longer input is refused
  const auto events =
      server.events("/v1/responses", R"({"input": "Hi", "max_output_tokens": 2, "stream": true})");
  const std::string done = "response.output_item.done: ";
  for (const std::string& event : events)
    if (event.starts_with(done)) {
      EXPECT_EQ(at(parse_json(event.substr(done.size())).value(), "item.status"), "incomplete");
    }
  const Json whole = server.post("/v1/responses", R"({"input": "Hi"})");
  EXPECT_EQ(at(whole, "output.0.status"), "completed");
  EXPECT_GE(std::stoll(at(whole, "completed_at")), std::stoll(at(whole, "created_at")));
  EXPECT_EQ(at(whole, "usage.input_tokens_details.cache_write_tokens"), "0");
}

TEST(ServerResponses, responses_think_as_they_are_told) {
  TestServer server("It is 4.");
  const std::string off = R"("chat_template_kwargs": {"enable_thinking": false})";
  const Json out = server.post("/v1/responses", R"({"input": "Hi", )" + off + "}");
  EXPECT_EQ(at(out, "output.0.type"), "message");
  EXPECT_EQ(at(out, "output.0.content.0.text"), "It is 4.");
  // The same fields make the same prompt where it is only counted.
  const Json counted = server.post("/v1/responses/input_tokens", R"({"input": "Hi", )" + off + "}");
  EXPECT_EQ(at(counted, "object"), "response.input_tokens");
  EXPECT_EQ(at(counted, "input_tokens"), at(out, "usage.input_tokens"));
}

}  // namespace
}  // namespace glint
