#include "text/grammar/grammar_spec.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/str.h"

namespace glint {
namespace {

using Kind = GrammarSpec::Kind;

TEST(GrammarSpec, comes_back_as_it_was) {
  std::string deep;
  for (int i = 0; i < 250; ++i) deep = str("{\"items\":", deep.empty() ? "{}" : deep, "}");
  const GrammarSpec instead = {.kind = Kind::kRegex, .text = "a\n\"\\u00e9\xc3\xa9"};
  const GrammarSpec spec = {.kind = Kind::kToolCalls,
                            .tools = {{"f", parse_json(deep).value()},
                                      {"g", Json()},
                                      {"", parse_json("[1e300]").value()}},
                            .at_least_one = false,
                            .parallel = false,
                            .lenient = true,
                            .instead = std::make_shared<const GrammarSpec>(instead)};
  const auto back = parse_spec(dump_spec(spec));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(dump_spec(back.value()), dump_spec(spec));
  EXPECT_EQ(back.value().tools, spec.tools);
  EXPECT_TRUE(back.value().lenient && !back.value().at_least_one && !back.value().parallel);
  ASSERT_TRUE(back.value().instead);
  EXPECT_EQ(back.value().instead->text, instead.text);

  const auto choice = parse_spec(dump_spec({.kind = Kind::kChoice, .choices = {"", "a"}}));
  EXPECT_EQ(choice.value().choices, (std::vector<std::string>{"", "a"}));
}

TEST(GrammarSpec, everything_is_told_apart) {
  EXPECT_NE(dump_spec({.text = "a"}), dump_spec({.choices = {"a"}}));
  EXPECT_NE(dump_spec({.parallel = true}), dump_spec({.parallel = false}));
  EXPECT_NE(dump_spec({}), dump_spec({.instead = std::make_shared<const GrammarSpec>()}));
}

TEST(GrammarSpec, other_texts_are_refused) {
  for (const char* text :
       {"", "[]", "{}", "[9,\"\",[],[],true,true,true,null]", "[0,1,[],[],true,true,true,null]",
        "[0,\"\",[1],[],true,true,true,null]", "[0,\"\",[],[[\"f\"]],true,true,true,null]",
        "[0,\"\",[],[],true,true,1,null]", "[0,\"\",[],[],true,true,true,[]]"})
    EXPECT_FALSE(parse_spec(text).ok()) << text;
}

}  // namespace
}  // namespace glint
