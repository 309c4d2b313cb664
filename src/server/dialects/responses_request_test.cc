#include <gtest/gtest.h>

#include "base/str.h"
#include "server/dialects/request_testing.h"
#include "server/dialects/responses_api.h"

namespace glint {
namespace {

Parsed responses(const std::string& fields) {
  return parse("{" + fields + "}", Api::kResponses, read_responses);
}

TEST(ResponsesRequest, items_become_messages) {
  const Parsed p = responses(R"("instructions": "I", "input": [
    {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
    {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "7"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A"}]},
    {"role": "user", "content": "more"}], "max_output_tokens": 5,
    "reasoning": {"effort": "none"}, "text": {"format": {"type": "json_object"}})");
  ASSERT_FALSE(p.error) << p.error->message;
  EXPECT_EQ(json_of(*p.request.chat),
            R"([{"role":"system","content":"I"},{"role":"user","content":"q"},)"
            R"({"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[)"
            R"({"id":"c","type":"function","function":{"name":"f","arguments":{}}}]},)"
            R"({"role":"tool","content":"7","tool_call_id":"c"},)"
            R"({"role":"assistant","content":"A"},{"role":"user","content":"more"}])");
  EXPECT_EQ(p.request.end.max_tokens, 5);
  EXPECT_EQ(dump_json(p.request.chat->kwargs), R"({"enable_thinking":false})");
  EXPECT_EQ(p.request.grammar->kind, GrammarSpec::Kind::kJsonObject);
  EXPECT_NE(p.request.form.echoed.find(R"("instructions":"I")"), std::string::npos);
}

// Copying those before for each would take minutes.
TEST(ResponsesRequest, many_calls_are_put_together_in_place) {
  constexpr std::size_t kCalls = 30'000;
  std::string items = R"({"role": "user", "content": "q"})";
  for (std::size_t i = 0; i < kCalls; ++i)
    items += str(R"(,{"type":"function_call","call_id":")", i, R"(","name":"f"})");
  const Parsed p = responses(R"("input": [)" + items + "]");
  ASSERT_FALSE(p.error) << p.error->message;
  ASSERT_EQ(p.request.chat->messages.size(), 2u);
  const Json::Array& calls = p.request.chat->messages[1].find("tool_calls")->as_array();
  ASSERT_EQ(calls.size(), kCalls);
  EXPECT_EQ(*calls.back().find("id"), Json(str(kCalls - 1)));
}

}  // namespace
}  // namespace glint
