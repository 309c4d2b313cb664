#include "server/dialects/anthropic.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "server/dialects/request_testing.h"

namespace glint {
namespace {

Parsed anthropic(const std::string& fields) {
  return parse(R"({"model": "m", "max_tokens": 9, )" + fields + "}", Api::kMessages,
               read_anthropic);
}

TEST(AnthropicRequest, an_empty_system_prompt_is_none) {
  for (const char* system : {R"("")", "[]", R"([{"type": "text", "text": ""}])", "null"}) {
    const Parsed p = anthropic(R"("messages": [{"role": "user", "content": "q"}], "system": )" +
                               std::string(system));
    ASSERT_FALSE(p.error) << p.error->message;
    EXPECT_EQ(json_of(*p.request.chat), R"([{"role":"user","content":"q"}])");
  }
}

TEST(AnthropicRequest, blocks_become_messages) {
  const Parsed p = anthropic(R"("system": [{"type": "text", "text": "S"}], "messages": [
    {"role": "user", "content": "q"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "h", "signature": "x"},
      {"type": "thinking", "thinking": "m", "signature": "y"},
      {"type": "text", "text": "let me see"},
      {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
      "content": [{"type": "text", "text": "7"}]}, {"type": "text", "text": "go on"}]}],
    "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
    "stop_sequences": ["E"], "top_k": 3, "metadata": {"user_id": "u"},
    "output_config": {"effort": "high"})");
  ASSERT_FALSE(p.error) << p.error->message;
  EXPECT_EQ(
      json_of(*p.request.chat),
      R"([{"role":"system","content":"S"},{"role":"user","content":"q"},)"
      R"({"role":"assistant","content":"let me see","reasoning_content":"hm","tool_calls":[)"
      R"({"id":"t1","type":"function","function":{"name":"f","arguments":{"a":1}}}]},)"
      R"({"role":"tool","content":"7","tool_call_id":"t1"},{"role":"user","content":"go on"}])");
  EXPECT_EQ(dump_json(p.request.chat->tools),
            R"([{"type":"function","function":{"name":"f","description":"d",)"
            R"("parameters":{"type":"object"}}}])");
  EXPECT_EQ(dump_json(p.request.chat->kwargs),
            R"({"enable_thinking":false,"reasoning_effort":"high"})");
  EXPECT_TRUE(p.request.grammar->at_least_one && !p.request.grammar->parallel);
  EXPECT_EQ(p.request.end.max_tokens, 9);
  EXPECT_TRUE(p.request.chat->add_generation_prompt);
}

TEST(AnthropicRequest, documents_and_search_results_of_text_are_text) {
  const std::string page = R"({"type": "search_result", "source": "u", "title": "T",
      "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})";
  const Parsed p = anthropic(str(R"("messages": [{"role": "user", "content": [
      {"type": "tool_result", "tool_use_id": "t", "content": [)",
                                 page, R"(]},
      {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "c"}},
      {"type": "document", "title": "U", "source": {"type": "content", "content": "d"}}, )",
                                 page, R"(, {"type": "text", "text": "q"}]}])"));
  ASSERT_FALSE(p.error) << p.error->message;
  EXPECT_EQ(json_of(*p.request.chat), R"([{"role":"tool","content":"T\nab\n","tool_call_id":"t"},)"
                                      R"({"role":"user","content":"c\nU\nd\nT\nab\nq"}])");
  const Parsed file = anthropic(R"("messages": [{"role": "user", "content": [{"type": "document",
      "source": {"type": "base64", "data": ""}}]}])");
  ASSERT_TRUE(file.error);
  EXPECT_EQ(file.error->message,
            "messages[0].content[0].source.type is \"base64\"; expected one of "
            "[\"text\",\"content\"]");
}

TEST(AnthropicRequest, tools_are_checked_as_openais_are) {
  const auto error = [](const std::string& tools) {
    const Parsed p =
        anthropic(R"("messages": [{"role": "user", "content": "q"}], "tools": )" + tools);
    return p.error ? p.error->param + ": " + p.error->message : "";
  };
  EXPECT_EQ(error(R"([{"name": "a <b"}])"),
            "tools[0].name: tools[0].name is \"a <b\"; it may not be empty or hold blanks, < or >");
  std::string many = R"([{"name": "f"})";
  for (int i = 0; i < 1024; ++i) many += R"(, {"name": "f"})";
  EXPECT_EQ(error(many + "]"), "tools: tools has 1025 items; at most 1024 are allowed");
  EXPECT_EQ(error(R"([], "stop_sequences": ")" + std::string(20000, 'x') + "\""),
            "stop_sequences: stop_sequences holds 20000 bytes; at most 16384 are allowed");
}

TEST(AnthropicRequest, an_unfinished_turn_of_the_assistant_is_continued) {
  const Parsed p = anthropic(R"("messages": [{"role": "user", "content": "q"},
      {"role": "assistant", "content": "It is "}], "thinking": {"type": "disabled"})");
  ASSERT_FALSE(p.error) << p.error->message;
  EXPECT_TRUE(p.request.chat->continue_final_message);
  EXPECT_FALSE(p.request.chat->add_generation_prompt);
}

}  // namespace
}  // namespace glint
