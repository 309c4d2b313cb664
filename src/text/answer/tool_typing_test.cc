#include "text/answer/tool_typing.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace glint {
namespace {

// The value of `text` under `schema`, as Python's JSON.
std::string typed(const char* schema, const std::string& text) {
  const Json parameters = parse_json(schema).value();
  ToolTyping typing(parameters);
  return dump_json(typing.value(text, &parameters), JsonStyle::kPython);
}

TEST(ToolTyping, the_first_type_that_fits) {
  EXPECT_EQ(typed(R"({"type":"string"})", "Beijing"), "\"Beijing\"");
  EXPECT_EQ(typed(R"({"type":"integer"})", "42"), "42");
  EXPECT_EQ(typed(R"({"type":"number"})", "3.14"), "3.14");
  EXPECT_EQ(typed(R"({"type":"number"})", "3.0"), "3");
  EXPECT_EQ(typed(R"({"type":"number"})", "inf"), "\"inf\"");
  EXPECT_EQ(typed(R"({"type":"boolean"})", "true"), "true");
  EXPECT_EQ(typed(R"({"type":"boolean"})", " FALSE "), "false");
  EXPECT_EQ(typed(R"({"type":"boolean"})", "1"), "true");
  EXPECT_EQ(typed(R"({"type":"array"})", R"(["a", 1])"), R"(["a", 1])");
  EXPECT_EQ(typed(R"({"type":["string","null"]})", "null"), "null");
  EXPECT_EQ(typed(R"({"type":["string","null"]})", "Null"), "null");
  EXPECT_EQ(typed(R"({"type":["string","null"]})", " null"), "\" null\"");
  EXPECT_EQ(typed(R"({"type":"string"})", "null"), "\"null\"");
  EXPECT_EQ(typed(R"({"type":"string"})", R"({'pattern': '\d+'})"), R"("{'pattern': '\\d+'}")");
  EXPECT_EQ(typed(R"({"type":"string"})", R"("\C|\.")"), R"("\"\\C|\\.\"")");
  EXPECT_EQ(typed(R"({"type":"string"})", "[1]"), "\"[1]\"");
  EXPECT_EQ(typed(R"({"type":"object"})", "[1]"), "[1]");  // the JSON may be anything
  EXPECT_EQ(typed(R"({"type":["object","string"]})", "[1]"), "\"[1]\"");
  EXPECT_EQ(typed(R"({"type":["array","string"]})", "7"), "\"7\"");
  EXPECT_EQ(typed(R"({"type":"object"})", "{'a': 1}"), "\"{'a': 1}\"");
  EXPECT_EQ(typed(R"({"type":"integer"})", "4.5"), "4.5");  // nothing fits: what JSON says
  EXPECT_EQ(typed(R"({"type":"integer"})", "four"), "\"four\"");
  EXPECT_EQ(typed(R"({"type":"integer"})", "1e999"), "1e999");
  EXPECT_EQ(typed(R"({"type":"any"})", "{\"a\":1}"), R"({"a": 1})");
  EXPECT_EQ(typed("{}", "42"), "\"42\"");
  EXPECT_EQ(typed(R"({"type":"object"})", "[1, NaN]"), "\"[1, NaN]\"");
  EXPECT_EQ(typed(R"({"type":"object"})", "[1e999]"), "[1e999]");
}

TEST(ToolTyping, types_come_from_everywhere) {
  EXPECT_EQ(typed(R"({"enum":[1,"a"]})", "1"), "1");
  EXPECT_EQ(typed(R"({"enum":[1,"a"]})", "a"), "\"a\"");
  for (const char* text : {" x", "1", "[1]"})
    EXPECT_EQ(typed(R"({"enum":[" x","1","[1]",1.5]})", text), str("\"", text, "\""));
  EXPECT_EQ(typed(R"({"enum":[" x","1","[1]",1.5]})", "1.5"), "1.5");
  EXPECT_EQ(typed(R"({"type":["integer","string"],"const":"1"})", "1"), "\"1\"");
  EXPECT_EQ(typed(R"({"anyOf":[{"type":"integer"},{"type":"null"}]})", "null"), "null");
  EXPECT_EQ(typed(R"({"anyOf":[{"oneOf":[{"type":"boolean"}]},{"type":"string"}]})", "true"),
            "true");
  EXPECT_EQ(typed(R"({"type":"Int32"})", "7"), "7");
  EXPECT_EQ(typed(R"({"type":"dict"})", "{}"), "{}");
  EXPECT_EQ(typed(R"({"type":["str"]})", "7"), "\"7\"");
  EXPECT_EQ(typed(R"({"const":3})", "3"), "3");
  EXPECT_EQ(typed(R"({"properties":{"a":{}}})", "{\"a\":1}"), R"({"a": 1})");
  EXPECT_EQ(typed(R"({"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"integer"}}})", "7"), "7");
}

TEST(ToolTyping, references_in_circles_end) {
  EXPECT_EQ(typed(R"({"$ref":"#"})", "7"), "\"7\"");
  EXPECT_EQ(typed(R"({"anyOf":[{"$ref":"#"},{"type":"integer"}]})", "7"), "7");
  EXPECT_EQ(
      typed(R"({"type":"object","properties":{"a":{"$ref":"#"}}})", R"({"a":{"a":{"a":"[]"}}})"),
      R"({"a": {"a": {"a": []}}})");
}

TEST(ToolTyping, numbers_are_pythons) {
  const char* integer = R"({"type":["integer","string"]})";
  EXPECT_EQ(typed(integer, " +1_000 "), "1000");
  EXPECT_EQ(typed(integer, "-007"), "-7");
  EXPECT_EQ(typed(integer, "-0"), "0");
  EXPECT_EQ(typed(integer, "1__0"), "\"1__0\"");
  EXPECT_EQ(typed(integer, "_1"), "\"_1\"");
  EXPECT_EQ(typed(integer, "0x10"), "\"0x10\"");
  EXPECT_EQ(typed(integer, "- 1"), "\"- 1\"");
  EXPECT_EQ(typed(integer, ""), "\"\"");
  EXPECT_EQ(typed(integer, "\xef\xbc\x94\xef\xbc\x92"), "42");  // wide digits
  EXPECT_EQ(typed(integer, "99999999999999999999"), "99999999999999999999");
  EXPECT_EQ(typed(integer, std::string(4300, '9')), std::string(4300, '9'));
  EXPECT_EQ(typed(integer, std::string(4301, '9')), "\"" + std::string(4301, '9') + "\"");
  const char* number = R"({"type":["number","string"]})";
  EXPECT_EQ(typed(number, ".5"), "0.5");
  EXPECT_EQ(typed(number, "5."), "5");
  EXPECT_EQ(typed(number, "1_0e1"), "100");
  EXPECT_EQ(typed(number, "1_e5"), "\"1_e5\"");
  EXPECT_EQ(typed(number, "-0.0"), "0");
  EXPECT_EQ(typed(number, "1e23"), "99999999999999991611392");
  EXPECT_EQ(typed(number, "1e-999"), "0");
  EXPECT_EQ(typed(number, "12345678901234567890"), "12345678901234567890");
  EXPECT_EQ(typed(number, " -1e999 "), "-1e999");
  EXPECT_EQ(typed(number, "9" + std::string(5000, '0')), "9" + std::string(5000, '0'));
  EXPECT_EQ(typed(number, "nan"), "\"nan\"");
  EXPECT_EQ(typed(number, "1e"), "\"1e\"");
  EXPECT_EQ(typed(number, "0x1p3"), "\"0x1p3\"");
}

TEST(ToolTyping, texts_inside_become_what_their_schemas_say) {
  const char* schema = R"({"type":"object","properties":{
      "n":{"type":"integer"},"s":{"type":"string"},"either":{"type":["integer","string"]},
      "list":{"type":"array","items":{"type":"boolean"}}}})";
  EXPECT_EQ(typed(schema, R"({"n":"5","s":"5","either":"5","list":["true",false],"x":"1"})"),
            R"({"n": 5, "s": "5", "either": "5", "list": [true, false], "x": "1"})");
  EXPECT_EQ(typed(R"({"properties":{"s":{"type":"string"}},
                      "additionalProperties":{"type":"integer"}})",
                  R"({"s":"5","x":"5"})"),
            R"({"s": "5", "x": 5})");
  EXPECT_EQ(typed(R"({"type":"object","patternProperties":{"^s":{"type":"string"}},
                      "additionalProperties":{"type":"integer"}})",
                  R"({"s":"5"})"),
            R"({"s": "5"})");
}

}  // namespace
}  // namespace glint
