#include "rl/rewards/reward.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "rl/rewards/boxed.h"
#include "rl/rewards/normal_form.h"

namespace glint {
namespace {

double score(const char* name, std::string_view text, std::string_view label) {
  return Reward::named(name).value().grade(text, label).reward;
}
double deepscaler(std::string_view answer, std::string_view label) {
  return score("deepscaler", str("thought</think>\\boxed{", answer, "}"), label);
}

TEST(Boxed, TheLastOneThatCloses) {
  EXPECT_EQ(last_boxed("\\boxed{1} \\boxed{2}"), "2");
  EXPECT_EQ(last_boxed("\\boxed{\\frac{1}{2}}."), "\\frac{1}{2}");
  EXPECT_EQ(last_boxed("\\boxed{}"), "");
  EXPECT_FALSE(last_boxed("\\boxed 5"));
  EXPECT_FALSE(last_boxed("\\boxed{1} \\boxed{2"));
  EXPECT_FALSE(last_boxed("\\fbox{5}"));
  EXPECT_FALSE(last_boxed("\\boxed"));
}

TEST(Reward, DeepscalerAsksForTheEndOfTheThought) {
  EXPECT_EQ(score("deepscaler", "\\boxed{5}", "5"), 0);
  EXPECT_EQ(score("deepscaler", "\\boxed{5}</think>", "5"), 0);
  EXPECT_EQ(score("deepscaler", "</think>\\boxed{5}", "5"), 1);
  EXPECT_EQ(score("deepscaler", "</think>\\boxed{5}</think>", "5"), 0);  // the last one counts
  EXPECT_EQ(score("deepscaler", "###Response\\boxed{5}", "5"), 1);
  EXPECT_EQ(score("deepscaler", "###Response\\boxed{5}###Response\\boxed{6}", "5"), 1);
  EXPECT_EQ(score("math", "\\boxed{5}", "5"), 1);
}

TEST(Reward, DeepscalerTakesTheLastBox) {
  EXPECT_EQ(score("deepscaler", "</think>\\boxed{4} \\boxed{5}", "5"), 1);
  EXPECT_EQ(score("deepscaler", "</think>\\boxed{5} \\boxed{4}", "5"), 0);
  EXPECT_EQ(score("deepscaler", "</think>\\boxed{5} \\boxed{", "5"), 0);
  EXPECT_EQ(score("deepscaler", "</think>\\boxed{5}", "\\boxed{5}"), 1);
  EXPECT_EQ(score("deepscaler", "</think>\\boxed{5}", ""), 0);
  EXPECT_EQ(score("deepscaler", "</think>\\boxed{}", "5"), 0);
}

TEST(Reward, AnswersThatAreTheSame) {
  const char* const same[][2] = {{"7", "x=7"},
                                 {"\\frac12", "0.5"},
                                 {"\\frac1{72}", "\\frac{1}{72}"},
                                 {"\\dfrac{1}{2}", "1/2"},
                                 {"50\\%", "50"},
                                 {"34.0", "34"},
                                 {"1{,}000", "1000"},
                                 {"1,000", "1000"},
                                 {"1,234,567", "1234567"},
                                 {"\\sqrt3", "\\sqrt{3}"},
                                 {"90^\\circ", "90"},
                                 {"90^{\\circ}", "90"},
                                 {"12\\text{ cm}", "12"},
                                 {"\\text{yes}", "yes"},
                                 {"Yes", "yes"},
                                 {"3 1/2", "\\frac{7}{2}"},
                                 {"2\\sqrt{2}", "\\sqrt{8}"},
                                 {"5 \\cdot x", "5x"},
                                 {"\\frac{x+1}{2}", "(x+1)/2"},
                                 {"(1, 2)", "(1,2)"},
                                 {"3 million", "3\\cdot 10^6"},
                                 {"\\$12", "12"},
                                 {"1 or 2", "1,2"},
                                 {"-0", "0"},
                                 {"007", "7"},
                                 {".5", "0.5"},
                                 {"\\varnothing", "\\emptyset"},
                                 {"\\theta/2", "\\frac{\\theta}{2}"},
                                 {"\\beta+\\alpha", "\\alpha + \\beta"},
                                 {"\\alpha+\\beta", "\u03b1+\u03b2"},
                                 {"\\pm 2", "\u00b12"},
                                 {"2\\pi", "2\u03c0"},
                                 {"x2", "2x"},
                                 {"|x|+\\alpha", "\\lvert x\\rvert + \\alpha"},
                                 {"\\mathrm{B}\\quad", "\\text{B}"},
                                 {"\\fbox{5}", "5"},
                                 {"x\u22643", "x \\leq 3"},
                                 {"\u2205", "\\emptyset"},
                                 {"\n1/2\n", "0.50"},
                                 {"\u3000"
                                  "5\u00a0",
                                  "5"},
                                 {"012345678901234567890", "12345678901234567890"}};
  for (const auto& [answer, label] : same) {
    EXPECT_TRUE(same_answer(answer, label))
        << answer << " and " << label << ": " << plain_form(answer) << " and " << plain_form(label);
  }
}

TEST(Reward, AnswersThatAreNot) {
  const char* const different[][2] = {{"2/4", "1/2"},        // fractions are reduced
                                      {"(1,2)", "[1,2]"},    // other brackets
                                      {"(1,2)", "(1,2,3)"},  // other lengths
                                      {"2+3", "5"},          // an integer is written out
                                      {"10/2", "5"},
                                      {"3 million", "3000000"},
                                      {"", "5"},
                                      {"5", "6"},
                                      {"1,00", "100"},
                                      {"\\beta", "\\alpha"},  // commands are more than nothing
                                      {"\\phi/2", "\\frac{\\psi}{2}"},
                                      {"\\pm 2", "\\ln 2"},
                                      {"0", "\\cos 0"},
                                      {"1.414213562", "\\sqrt{2}"},
                                      {"100000000000000000001", "100000000000000000000"},
                                      {"__import__('os').system('x')", "0"},
                                      {"9**9**9**9", "0"}};
  for (const auto& [answer, label] : different) {
    EXPECT_FALSE(same_answer(answer, label)) << answer << " and " << label;
    EXPECT_EQ(deepscaler(answer, label), 0);
  }
}

TEST(Reward, MathdForm) {
  EXPECT_EQ(mathd_form(" \\tfrac34 "), "\\frac{3}{4}");
  EXPECT_EQ(mathd_form("3/4"), "\\frac{3}{4}");
  EXPECT_EQ(mathd_form("03/4"), "03/4");
  EXPECT_EQ(mathd_form("5\\text{ m}\\text{ s}"), "5\\text{ m}\\text{ s}");  // two units: as it was
  EXPECT_EQ(mathd_form("abc=7"), "abc=7");
  EXPECT_EQ(mathd_form("\\left( 1 , 2 \\right)"), "(1,2)");
  EXPECT_EQ(mathd_form("{.5}"), "{0.5}");
  EXPECT_EQ(mathd_form("\\frac"), "\\frac");
  EXPECT_EQ(mathd_form("x \\sqrt"), "x \\sqrt");
}

TEST(Reward, ShorthandTakesWholeCharacters) {
  EXPECT_EQ(mathd_form("\\frac\u03c0\u221e"), "\\frac{\u03c0}{\u221e}");
  EXPECT_EQ(mathd_form("\\frac\u221e"), "\\frac\u221e");  // nothing below: as it was
  EXPECT_EQ(mathd_form("\\sqrt\u03c0"), "\\sqrt{\u03c0}");
  EXPECT_EQ(dapo_form("\\frac1\u03c0"), "\\frac{1}{\u03c0}");
  EXPECT_EQ(dapo_form("\\frac\u03c0"), "\\frac\u03c0");
  EXPECT_EQ(dapo_form("\\sqrt\u03c0"), "\\sqrt{\u03c0}");
  EXPECT_EQ(plain_form("\\frac\u03c01"), "\u03c0/1");
  EXPECT_EQ(plain_form("\\\u03c0 1"), "1");  // a command of no name
  EXPECT_EQ(deepscaler("\\frac\u221e\u03c0", "\\frac{\u221e}{\u03c0}"), 1);
  EXPECT_EQ(deepscaler("\\frac{\u03c0}{2}", "\u03c0/2"), 1);
}

TEST(Reward, Dapo) {
  EXPECT_EQ(score("dapo", "so\nAnswer: 34", "34"), 1);
  EXPECT_EQ(score("dapo", "answer :  $34$", "34"), 1);
  EXPECT_EQ(score("dapo", "Answer: \\boxed{34}", "34"), 1);
  EXPECT_EQ(score("dapo", "Answer: x = 1,234", "1234"), 1);
  EXPECT_EQ(score("dapo", "Answer: \\frac12", "\\frac{1}{2}"), 1);
  EXPECT_EQ(score("dapo", "Answer: 12\\text{ cm}", "12"), 1);
  EXPECT_EQ(score("dapo", "Answer: 33\nAnswer: 34", "34"), 1);
  EXPECT_EQ(score("dapo", "Answer: 34\nAnswer: 33", "34"), -1);
  EXPECT_EQ(score("dapo", "34", "34"), -1);
  EXPECT_EQ(score("dapo", "Answer: 34", "34.0"), 1);  // a label is a whole number
  EXPECT_EQ(score("dapo", "Answer:\n\n34", "34"), 1);
  EXPECT_EQ(score("dapo",
                  "Answer\u00a0:\u3000"
                  "34\u2003",
                  "34"),
            1);
  EXPECT_EQ(score("dapo",
                  "Answer: 3\u00a0"
                  "4",
                  "34"),
            -1);
  EXPECT_EQ(score("dapo", "Answer:", "34"), -1);
  EXPECT_EQ(score("dapo", "Answer: 34" + std::string(300, ' '), "34"), -1);
  std::string umlauts;
  for (int i = 0; i < 280; ++i) umlauts += "\xc3\xbc";
  EXPECT_EQ(score("dapo", "Answer: 34\n" + umlauts, "34"), 1);  // characters, not bytes
}

TEST(Reward, F1) {
  EXPECT_EQ(score("f1", "The cat sat.", "a cat sat"), 1);
  EXPECT_DOUBLE_EQ(score("f1", "cat", "cat sat"), 2.0 / 3);
  EXPECT_EQ(score("f1", "dog", "cat"), 0);
  EXPECT_EQ(score("f1", "yes it is", "yes"), 0);
  EXPECT_EQ(score("f1", "", "cat"), 0);
  EXPECT_EQ(score("f1", "\u00c9MILE\u00a0Zola", "\u00e9mile zola"), 1);
  EXPECT_EQ(score("f1", "\u201cthe cat", "\u201c cat"), 1);  // articles end where words do
  EXPECT_DOUBLE_EQ(score("f1", "cat cat", "cat"), 2.0 / 3);  // a word counts once
}

TEST(Reward, BoxedBeforeTheName) {
  EXPECT_EQ(score("boxed_f1", "thinking \\boxed{the cat}", "cat"), 1);
  EXPECT_EQ(score("boxed_f1", "cat", "cat"), 0);
}

TEST(Reward, NoiseIsTheSameEveryTime) {
  int ones = 0;
  for (int i = 0; i < 1000; ++i) {
    const double once = score("deterministic_random", str("answer ", i), "label");
    EXPECT_EQ(once, score("deterministic_random", str("answer ", i), "label"));
    ones += once == 1;
  }
  EXPECT_NEAR(ones, 500, 80);
}

TEST(Reward, GradesSayWhy) {
  const Reward reward = Reward::named("deepscaler").value();
  EXPECT_EQ(reward.grade("\\boxed{5}", "5").reason,
            "there is no </think> (and no ###Response): the thinking has not ended");
  EXPECT_EQ(reward.grade("</think>\\boxed{6}", "5").reason, "the answer \"6\" is not \"5\"");
  EXPECT_EQ(reward.grade("</think>\\boxed{6}", "5").answer, "6");
  const auto unknown = Reward::named("deepscale");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("deepscaler, math, dapo"), std::string::npos);
}

TEST(Reward, HostileTextsEndSoon) {
  std::string deep, commas;
  for (int i = 0; i < 20000; ++i) deep += "\\frac{", commas += ",123";
  for (const std::string& text :
       {deep, std::string(100000, '{'), commas, std::string(100000, '\\'), std::string(100000, ' '),
        std::string(100000, '-'), "1" + std::string(100000, '0')}) {
    EXPECT_FALSE(same_answer(text, "5"));
    EXPECT_EQ(deepscaler(text, "5"), 0);
    EXPECT_EQ(score("dapo", "Answer: " + text, "5"), -1);
  }
}

}  // namespace
}  // namespace glint
