#include "text/grammar/grammar_pattern.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace glint {
namespace {

TEST(GrammarPattern, expressions_are_limited_with_their_repetitions) {
  for (const char* small : {"a{100}", "[0-9]{4}-(a|b){2,}", "(ab){3,20}", "{", "a{", "(", ")", "["})
    EXPECT_TRUE(check_expression(small).ok()) << small;
  for (const char* large : {"a{5001}", "(ab){2501}", "(a{100}){51}", "((a{1,20}){20}){20}",
                            "a{1,999999999999999999999}", "a{20}{20}{20}",
                            "a{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}"})
    EXPECT_FALSE(check_expression(large).ok()) << large;
}

TEST(GrammarPattern, repetitions_hold_no_blanks) {
  for (const char* text : {"a{2} {", "a\\{ 2}", "[{ 2}]", "a {2}"})
    EXPECT_TRUE(check_expression(text).ok()) << text;
  for (const char* text : {"{ 0,1}", "{0, 1}", "{2 }"})
    EXPECT_EQ(check_expression(str("a", text, "b")).error().message,
              str("the repetition \"", text,
                  "\" holds a blank; leave it out, or write \\{ for the "
                  "character"));
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

TEST(GrammarPattern, characters_in_a_row_are_limited) {
  const auto limited = [](const char* pattern) {
    return pattern_of_length(pattern, 3, 5).value_or("none");
  };
  EXPECT_EQ(limited("^[a-z]+$"), "^[a-z]{3,5}$");
  EXPECT_EQ(limited("^x-\\d*\\.$"), "^x-\\d{0,2}\\.$");
  EXPECT_EQ(limited("^a{2}[^\\]x]{0,9}?$"), "^a{2}[^\\]x]{1,3}$");
  EXPECT_EQ(limited("^\u00e4+$"), "^\u00e4{3,5}$");
  EXPECT_EQ(limited("^abc$"), "^abc$");
  EXPECT_EQ(pattern_of_length("^a+$", 1, 1 << 30), "^a{1,}$");
  EXPECT_EQ(pattern_of_length("^[a-z][a-z0-9]*$", 2, 1 << 30), "^[a-z][a-z0-9]{1,}$");
  for (const char* pattern : {"a", "^a", "a$", "^a+b+$", "^(a)$", "^a|b$", "^ab$", "^a{6}$",
                              "^\\u0061+$", "^a{$", "^a{2,1$", "^[a$", "^a\\", "^a+\\$"})
    EXPECT_EQ(limited(pattern), "none") << pattern;
}

TEST(GrammarPattern, lookaheads_of_libraries_are_left_out) {
  EXPECT_EQ(without_lookaheads("^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"),
            "^[+-]?(\\d+\\.?\\d*|\\.\\d+)$");
  EXPECT_EQ(without_lookaheads("^(?!a)b$"), "^(?!a)b$");
}

}  // namespace
}  // namespace glint
