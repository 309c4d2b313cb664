#include "rl/rewards/expression.h"

#include <gtest/gtest.h>

#include <string>

namespace glint {
namespace {

TEST(Expression, RationalsAreExact) {
  EXPECT_TRUE(equal_expressions("1/3+1/6", "1/2"));
  EXPECT_TRUE(equal_expressions("0.1+0.2", "0.3"));
  EXPECT_TRUE(equal_expressions("-2^2", "-4"));
  EXPECT_TRUE(equal_expressions("2^-1", "0.5"));
  EXPECT_TRUE(equal_expressions("2**3", "8"));
  EXPECT_TRUE(equal_expressions("--3", "3"));
  EXPECT_FALSE(equal_expressions("0.333333333333333333", "1/3"));
  EXPECT_FALSE(equal_expressions("100000000000000000000", "100000000000000000001"));
}

TEST(Expression, VariablesStandForAllValues) {
  EXPECT_TRUE(equal_expressions("(x+1)^2", "x^2+2x+1"));
  EXPECT_TRUE(equal_expressions("2xy", "y*x*2"));
  EXPECT_TRUE(equal_expressions("(x^2-1)/(x-1)", "x+1"));
  EXPECT_TRUE(equal_expressions("3(x+1)", "3x+3"));
  EXPECT_FALSE(equal_expressions("x^2", "x"));
  EXPECT_FALSE(equal_expressions("x", "y"));
}

TEST(Expression, RootsAndPiToNineDigits) {
  EXPECT_TRUE(equal_expressions("sqrt(8)", "2sqrt(2)"));
  EXPECT_TRUE(equal_expressions("1/sqrt(2)", "sqrt(2)/2"));
  EXPECT_TRUE(equal_expressions("2pi/4", "pi/2"));
  EXPECT_TRUE(equal_expressions("sqrt(2)sqrt(3)-sqrt(6)", "0"));
  EXPECT_TRUE(equal_expressions("ln(4)", "2ln(2)"));
  EXPECT_TRUE(equal_expressions("x^.5", "sqrt(x)"));
  EXPECT_FALSE(equal_expressions("sqrt(x^2)", "x"));  // not where x is negative
  EXPECT_FALSE(equal_expressions("pi", "3.14159"));
  EXPECT_FALSE(equal_expressions("pi", "22/7"));
}

TEST(Expression, NothingThatHasNoValueIsEqual) {
  for (const char* text : {"", "1/0", "1/(x-x)", "2+", "(2", "2)", "1..2", ".", "sqrt", "sqrt2",
                           "0^-1", "ln(0)", "x=1", "2**", "2,3", "1/(sqrt(2)sqrt(2)-2)"}) {
    EXPECT_FALSE(equal_expressions(text, text)) << text;
  }
}

TEST(Expression, TheOriginalsLimits) {
  EXPECT_FALSE(equal_expressions("x+y+z", "x+y+z"));
  EXPECT_FALSE(equal_expressions("2^(3)", "8"));
  EXPECT_FALSE(equal_expressions("2^10", "1024"));
  EXPECT_FALSE(equal_expressions("2^2^2", "16"));
}

TEST(Expression, HostileTextsEndSoon) {
  EXPECT_FALSE(equal_expressions(std::string(1001, '1'), std::string(1001, '1')));
  EXPECT_FALSE(equal_expressions(std::string(400, '('), "1"));
  EXPECT_FALSE(equal_expressions("9**9**9**9**9", "1"));
  EXPECT_FALSE(equal_expressions("1\xc3\xa9", "1"));
  std::string powers = "x";
  for (int i = 0; i < 40; ++i) powers = "(" + powers + ")^9";
  EXPECT_FALSE(equal_expressions(powers, "1"));
  EXPECT_TRUE(equal_expressions(std::string(999, '-') + "1", "-1"));
}

}  // namespace
}  // namespace glint
