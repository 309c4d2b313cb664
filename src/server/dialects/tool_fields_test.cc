#include "server/dialects/tool_fields.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "server/dialects/anthropic.h"
#include "server/dialects/openai_request.h"
#include "server/dialects/responses_api.h"

namespace glint {
namespace {

using Kind = GrammarSpec::Kind;

constexpr const char* kChatTools =
    R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
                 {"type": "function", "function": {"name": "g"}}])";
constexpr const char* kFlatTools =
    R"("tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}},
                 {"type": "function", "name": "g"}])";
constexpr const char* kMessagesTools =
    R"("tools": [{"name": "f", "input_schema": {"type": "object"}},
                 {"name": "g", "input_schema": {"type": "object"}}])";

struct Parsed {
  ApiRequest request;
  std::string error;
};

Parsed parse(const std::string& body, Api api, ReadRequest read) {
  const ServerConfig config = {.served_names = {"m"}};
  auto request = parse_request(parse_json(body).value(), api, read, {config, 1000});
  if (!request.ok()) return {.request = {}, .error = request.error().message};
  return {.request = std::move(request).value(), .error = {}};
}

Parsed chat(const std::string& fields) {
  return parse(
      str(R"({"messages": [{"role": "user", "content": "hi"}], )", kChatTools, fields, "}"),
      Api::kChat, read_chat);
}

Parsed responses(const std::string& fields) {
  return parse(str(R"({"input": "hi", )", kFlatTools, fields, "}"), Api::kResponses,
               read_responses);
}

Parsed anthropic(const std::string& fields) {
  return parse(
      str(R"({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}], )",
          kMessagesTools, fields, "}"),
      Api::kMessages, read_anthropic);
}

TEST(ToolFields, tool_choice_becomes_a_grammar) {
  const Parsed plain = chat("");
  EXPECT_EQ(plain.request.tools.specs.size(), 2u);
  EXPECT_TRUE(plain.request.chat->tools.is_array());
  // A call that comes by itself has the names and types of its function's schema.
  ASSERT_TRUE(plain.request.grammar);
  EXPECT_TRUE(plain.request.grammar->lenient && plain.request.grammar->parallel);
  EXPECT_FALSE(plain.request.grammar->at_least_one);
  const GrammarSpec required = *chat(R"(, "tool_choice": "required")").request.grammar;
  EXPECT_TRUE(required.at_least_one && required.parallel && !required.lenient);
  EXPECT_EQ(required.tools.size(), 2u);
  const GrammarSpec named =
      *chat(R"(, "tool_choice": {"type": "function", "function": {"name": "g"}})").request.grammar;
  EXPECT_TRUE(named.at_least_one && !named.parallel);
  ASSERT_EQ(named.tools.size(), 1u);
  EXPECT_EQ(named.tools[0].name, "g");
  const GrammarSpec serial = *chat(R"(, "parallel_tool_calls": false)").request.grammar;
  EXPECT_TRUE(!serial.at_least_one && !serial.parallel);
  const Parsed none = chat(R"(, "tool_choice": "none")");
  EXPECT_EQ(none.request.tools.choice, ToolUse::Choice::kNone);
  EXPECT_FALSE(none.request.grammar);
}

TEST(ToolFields, with_a_format_the_answer_is_calls_or_in_the_format) {
  for (const Parsed& p :
       {chat(R"(, "response_format": {"type": "json_schema", "json_schema": {"schema": {}}})"),
        responses(R"(, "text": {"format": {"type": "json_schema", "schema": {}}})"),
        anthropic(R"(, "output_config": {"format": {"type": "json_schema", "schema": {}}})")}) {
    ASSERT_EQ(p.error, "");
    const GrammarSpec& spec = *p.request.grammar;
    EXPECT_EQ(spec.kind, Kind::kToolCalls);
    EXPECT_TRUE(spec.at_least_one && spec.lenient);
    ASSERT_TRUE(spec.instead);
    EXPECT_EQ(spec.instead->kind, Kind::kJsonSchema);
  }
  const Parsed none =
      chat(R"(, "tool_choice": "none", "response_format": {"type": "json_object"})");
  EXPECT_EQ(none.request.grammar->kind, Kind::kJsonObject);
}

TEST(ToolFields, a_call_that_is_demanded_wins_over_a_format) {
  for (const Parsed& p :
       {chat(R"(, "tool_choice": "required", "response_format": {"type": "json_object"})"),
        responses(R"(, "tool_choice": {"type": "function", "name": "f"},
                       "text": {"format": {"type": "json_schema", "schema": {}}})"),
        anthropic(R"(, "tool_choice": {"type": "any"},
                       "output_config": {"format": {"type": "json_schema", "schema": {}}})")}) {
    ASSERT_EQ(p.error, "");
    EXPECT_EQ(p.request.grammar->kind, Kind::kToolCalls);
    EXPECT_FALSE(p.request.grammar->instead);
  }
}

TEST(ToolFields, allowed_tools_are_a_part_of_the_tools) {
  const Parsed c = chat(R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {
      "mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]}})");
  const Parsed r = responses(R"(, "tool_choice": {"type": "allowed_tools", "mode": "auto",
      "tools": [{"type": "function", "name": "g"}]})");
  for (const Parsed& p : {c, r}) {
    ASSERT_EQ(p.error, "");
    EXPECT_EQ(p.request.chat->tools.as_array().size(), 2u);  // the prompt stays the same
    ASSERT_EQ(p.request.grammar->tools.size(), 1u);
    EXPECT_EQ(p.request.grammar->tools[0].name, "g");
  }
  EXPECT_TRUE(c.request.grammar->at_least_one);
  EXPECT_FALSE(r.request.grammar->at_least_one);
  EXPECT_EQ(chat(R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {
                "tools": [{"type": "function", "function": {"name": "h"}}]}})")
                .error,
            "tool_choice names function \"h\", which tools lack");
  EXPECT_EQ(responses(R"(, "tool_choice": {"type": "allowed_tools", "tools": []})").error,
            "tool_choice.tools is empty; expected at least one");
  std::string many = R"({"name": "f"})";
  for (int i = 0; i < 1024; ++i) many += R"(, {"name": "f"})";
  EXPECT_EQ(
      responses(R"(, "tool_choice": {"type": "allowed_tools", "tools": [)" + many + "]}").error,
      "tool_choice.tools has 1025 items; at most 1024 are allowed");
  EXPECT_EQ(chat(R"(, "tool_choice": {"type": "custom", "name": "f"})").error,
            "tool_choice.type is \"custom\"; expected one of [\"function\",\"allowed_tools\"]");
  EXPECT_EQ(chat(R"(, "tool_choice": {"type": "function"})").error,
            "tool_choice names no function; expected {\"type\": \"function\", \"function\": "
            "{\"name\": ...}}");
}

}  // namespace
}  // namespace glint
