#include "text/grammar/grammar_tools.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

std::string error_of(const char* parameters, const char* name = "f") {
  const Result<Json> grammar = tool_call_grammar({{name, parse_json(parameters).value()}}, {});
  return grammar.ok() ? dump_json(grammar.value()) : grammar.error().message;
}

TEST(GrammarTools, a_call_is_its_arguments_in_order) {
  const Result<Json> grammar =
      tool_call_grammar({{"f", parse_json(R"({"type":"object","properties":{"a":{"type":"string"}},
                            "required":["a"]})")
                                   .value()}},
                        {.at_least_one = true, .parallel = false});
  EXPECT_EQ(dump_json(grammar.value()),
            R"({"type":"structural_tag","format":{"type":"tag","begin":"<tool_call>f",)"
            R"("content":{"type":"sequence","elements":[{"type":"tag",)"
            R"("begin":"<arg_key>a</arg_key><arg_value>","content":{"type":"any_text"},)"
            R"("end":"</arg_value>"}]},"end":"</tool_call>"}})");
}

TEST(GrammarTools, what_no_call_can_say_is_named) {
  EXPECT_EQ(error_of("{}", "f<"),
            "parameters of function \"f<\": function \"f<\" has a name that no call can hold");
  EXPECT_EQ(error_of(R"({"properties":{" a":{}}})"),
            "parameters of function \"f\": argument \" a\" has a name that no call can hold");
  EXPECT_EQ(error_of(R"({"anyOf":[{"type":"object"}]})"),
            "parameters of function \"f\": \"anyOf\" is not supported for all arguments together");
  EXPECT_EQ(error_of(R"({"type":"array"})"),
            "parameters of function \"f\": the arguments are no \"object\"");
  EXPECT_EQ(error_of(R"({"properties":{"a":{"enum":["</arg_value>"]}}})"),
            "parameters of function \"f\": argument \"a\": value \"</arg_value>\" holds a marker "
            "of calls");
  EXPECT_EQ(error_of(R"({"properties":{"a":{"not":{}}}})"),
            "parameters of function \"f\": at \"/properties/a\": \"not\" is not supported");
  EXPECT_EQ(tool_call_grammar({}, {}).error().message, "there are no functions to call");
}

TEST(GrammarTools, a_reference_into_a_list_that_became_its_arrangements_is_named) {
  EXPECT_EQ(
      error_of(R"({"properties":{"x":{"$ref":"#/components/foo"},
                                       "y":{"$ref":"#/components/foo/items"}},
                         "components":{"foo":{"type":"array","uniqueItems":true,
                                              "items":{"enum":[1,2]}}}})"),
      "parameters of function \"f\": argument \"y\": there is no \"#/components/foo/items\" to "
      "refer to");
}

TEST(GrammarTools, references_in_circles_end) {
  EXPECT_EQ(error_of(R"({"properties":{"a":{"$ref":"#/$defs/x"}},
                         "$defs":{"x":{"anyOf":[{"$ref":"#/$defs/x"}]}}})"),
            "parameters of function \"f\": argument \"a\": alternatives are nested too deeply");
}

}  // namespace
}  // namespace glint
