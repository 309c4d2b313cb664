#include "rl/tool_turns.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace glint {
namespace {

const std::string kTiny = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");

class ToolTurnsTest : public testing::Test {
 protected:
  std::vector<TokenId> next(const std::string& turn, std::vector<ToolSpec> tools = {},
                            const Json& kwargs = Json::Object{}) {
    const ToolTurns turns(tokenizer, ChatTemplate::open(kTiny).value(),
                          [this](const std::string& name, const std::string& arguments) {
                            asked.push_back(name + arguments);
                            return Result<std::string>(str("result ", asked.size()));
                          });
    return turns
        .next(tokenizer.encode("<|user|>Hi<|assistant|><think>").value(),
              tokenizer.encode(turn).value(), tools, kwargs)
        .value();
  }

  const Tokenizer tokenizer = Tokenizer::open(kTiny).value();
  std::vector<std::string> asked;
};

TEST_F(ToolTurnsTest, an_answer_without_calls_ends) {
  EXPECT_TRUE(next("I know.</think>4<|user|>").empty());
  EXPECT_TRUE(next("I know.").empty());
  EXPECT_TRUE(asked.empty());
}

TEST_F(ToolTurnsTest, results_come_as_the_template_writes_them) {
  const auto ids = next(
      "Look.</think><tool_call>f<arg_key>x</arg_key><arg_value>3</arg_value></tool_call>"
      "<tool_call>g</tool_call><|observation|>");
  EXPECT_EQ(asked, (std::vector<std::string>{"f{\"x\": \"3\"}", "g{}"}));
  EXPECT_EQ(ids, tokenizer
                     .encode("<tool_response>result 1</tool_response>"
                             "<tool_response>result 2</tool_response><|assistant|><think>")
                     .value());
}

TEST_F(ToolTurnsTest, the_next_turn_begins_as_the_row_has_it) {
  const auto ids = next("</think><tool_call>g</tool_call><|observation|>", {},
                        Json::Object{{"enable_thinking", false}});
  EXPECT_EQ(
      ids,
      tokenizer.encode("<tool_response>result 1</tool_response><|assistant|></think>").value());
}

TEST_F(ToolTurnsTest, functions_that_are_not_offered_do_not_run) {
  const Json schema = parse_json(R"({"properties": {"x": {"type": "integer"}}})").value();
  EXPECT_TRUE(next("</think><tool_call>f</tool_call><|observation|>", {{"g", schema}}).empty());
  EXPECT_FALSE(next("</think><tool_call>g<arg_key>x</arg_key><arg_value>3</arg_value></tool_call>"
                    "<|observation|>",
                    {{"g", schema}})
                   .empty());
  EXPECT_EQ(asked, (std::vector<std::string>{"g{\"x\": 3}"}));
}

TEST_F(ToolTurnsTest, arguments_nest_as_deep_as_json_may) {
  const auto depth = static_cast<std::size_t>(JsonLimits().max_depth);
  const std::string deep = std::string(depth, '[') + std::string(depth, ']');
  const Json schema = parse_json(R"({"properties": {"x": {"type": "array"}}})").value();
  EXPECT_FALSE(next(str("</think><tool_call>g<arg_key>x</arg_key><arg_value>", deep,
                        "</arg_value></tool_call><|observation|>"),
                    {{"g", schema}})
                   .empty());
  EXPECT_EQ(asked, (std::vector<std::string>{str("g{\"x\": ", deep, "}")}));
}

TEST(ToolSpecs, are_read_with_and_without_their_wrapping) {
  const auto specs = read_tool_specs(parse_json(R"([{"type": "function", "function": {"name": "f"}},
                                     {"name": "g", "parameters": {"type": "object"}}])")
                                         .value())
                         .value();
  ASSERT_EQ(specs.size(), 2u);
  EXPECT_EQ(specs[0].name, "f");
  EXPECT_EQ(specs[1].name, "g");
  EXPECT_TRUE(specs[1].parameters.is_object());
  EXPECT_FALSE(read_tool_specs(Json("f")).ok());
  EXPECT_NE(read_tool_specs(Json(Json::Array{Json("f")})).error().message.find("tool 1"),
            std::string::npos);
}

}  // namespace
}  // namespace glint
