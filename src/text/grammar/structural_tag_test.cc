#include "text/grammar/structural_tag.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "text/grammar/grammar_testing.h"

namespace glint {
namespace {

bool allows(const std::string& tag, const std::string& text) {
  const auto constraint =
      tiny_grammars().constrain({.kind = GrammarSpec::Kind::kStructuralTag, .text = tag});
  const std::vector<TokenId> tokens = tiny_grammars().tokenizer.encode(text).value();
  return std::ranges::all_of(tokens, [&](TokenId token) { return constraint->accept(token); });
}

std::string error_of(const std::string& tag) {
  const auto made = read_structural_tag(parse_json(tag).value());
  return made.ok() ? "" : made.error().message;
}

TEST(StructuralTag, text_holds_parts_that_follow_a_schema) {
  const std::string older = R"({"type": "structural_tag", "triggers": ["<f="], "structures": [
      {"begin": "<f=a>", "schema": {"type": "object", "properties": {"n": {"type": "integer"}},
       "required": ["n"]}, "end": "</f>"}]})";
  const std::string newer = R"({"type": "structural_tag", "format": {"type": "triggered_tags",
      "triggers": ["<f="], "tags": [{"begin": "<f=a>", "end": "</f>", "content": {
      "type": "json_schema", "json_schema": {"type": "object",
      "properties": {"n": {"type": "integer"}}, "required": ["n"]}}}]}})";
  for (const std::string& tag : {older, newer}) {
    EXPECT_TRUE(allows(tag, "Some text. <f=a>{\"n\": 3}</f> And more."));
    EXPECT_FALSE(allows(tag, "Some text. <f=a>{\"n\": \"three\"}</f>"));
    EXPECT_FALSE(allows(tag, "<f=b>"));
  }
}

TEST(StructuralTag, of_tool_calls_may_write_their_markers_with_escapes) {
  for (const char* begin : {"<tool_call>f", "\\u003ctool_call\\u003ef"}) {
    const std::string tag =
        str(R"({"format": {"type": "tag", "begin": ")", begin,
            R"(", "content": {"type": "const_string", "value": ""}, "end": "</tool_call>"}})");
    EXPECT_TRUE(allows(tag, "<tool_call>f</tool_call>")) << tag;
  }
}

TEST(StructuralTag, what_is_not_supported_is_named_with_its_place) {
  EXPECT_EQ(error_of("{}"), "a structural tag has a format, or structures and triggers");
  EXPECT_EQ(error_of(R"({"format": {"type": "or", "elements": [{"type": "token"}]}})"),
            "format.elements[0].type is \"token\", which is not supported");
  EXPECT_EQ(error_of(R"({"format": {"type": "json_schema", "json_schema": {"not": {}}}})"),
            "format.json_schema: \"not\" is not supported");
  EXPECT_EQ(error_of(R"({"format": {"type": "star"}})"), "format.content is missing");
  std::string deep = R"({"type": "any_text"})";
  for (int i = 0; i < 40; ++i) deep = R"({"type": "optional", "content": )" + deep + "}";
  EXPECT_NE(error_of(R"({"format": )" + deep + "}").find("nested deeper"), std::string::npos);
}

}  // namespace
}  // namespace glint
