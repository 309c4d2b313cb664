#include "text/grammar/grammar_pattern.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(GrammarPattern, expressions_are_limited_with_their_repetitions) {
  for (const char* small : {"a{100}", "[0-9]{4}-(a|b){2,}", "(ab){3,20}", "{", "a{", "(", ")", "["})
    EXPECT_TRUE(check_expression_size(small).ok()) << small;
  for (const char* large : {"a{5001}", "(ab){2501}", "(a{100}){51}", "((a{1,20}){20}){20}",
                            "a{1,999999999999999999999}"})
    EXPECT_FALSE(check_expression_size(large).ok()) << large;
}

TEST(GrammarPattern, patterns_may_match_anywhere) {
  EXPECT_EQ(whole_text_pattern("a"), "(?:.*a.*)");
  EXPECT_EQ(whole_text_pattern("^a"), "(?:a.*)");
  EXPECT_EQ(whole_text_pattern("a$"), "(?:.*a)");
  EXPECT_EQ(whole_text_pattern("^a$|b"), "(?:a|.*b.*)");
  EXPECT_EQ(whole_text_pattern("^(a|b)$"), "(?:(a|b))");
  EXPECT_EQ(whole_text_pattern("^[|$^]\\$"), "(?:[|$^]\\$.*)");
  EXPECT_EQ(whole_text_pattern(""), "(?:.*)");
  EXPECT_EQ(whole_text_pattern("a|"), "(?:.*a.*|.*)");
  EXPECT_EQ(whole_text_pattern("^[\u00e4-\u00fc]+\\\U0001f600$"),
            "(?:[\\u{e4}-\\u{fc}]+\\u{1f600})");
}

}  // namespace
}  // namespace glint
