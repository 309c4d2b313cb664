#include "text/tokenizer/pretokenizer.h"

#include <gtest/gtest.h>

#include "text/tokenizer/tokenizer_testing.h"

namespace glint {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kGlm =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr const char* kQwen =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr const char* kDeepseekDigits = "\\p{N}{1,3}";
constexpr const char* kDeepseekHan = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
// Its file has line ends as characters.
constexpr const char* kDeepseekWords =
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
constexpr const char* kCl100k =
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
constexpr const char* kO200k =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'"
    "s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}"
    "\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

Json split_step(const char* pattern, const char* behavior = "Isolated", bool invert = false) {
  return Json::Object{{"type", "Split"},
                      {"pattern", Json::Object{{"Regex", pattern}}},
                      {"behavior", behavior},
                      {"invert", invert}};
}

Json byte_level(bool use_regex = false) {
  return Json::Object{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", use_regex}};
}

Json sequence(Json::Array steps) {
  return Json::Object{{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

Words split(const Json& json, std::string_view text) {
  Regex::Scratch scratch;
  Words words;
  const Pretokenizer pretokenizer = Pretokenizer::parse(json).value();
  const auto collect = [&](std::string_view word) { words.emplace_back(word); };
  EXPECT_TRUE(pretokenizer.split(text, scratch, collect).ok());
  return words;
}

Words split_by(const char* pattern, std::string_view text) {
  return split(sequence({split_step(pattern), byte_level()}), text);
}

std::string error_of(const Json& json) {
  const Result<Pretokenizer> result = Pretokenizer::parse(json);
  return result.ok() ? "" : result.error().message;
}

TEST(Pretokenizer, families_differ_in_digits_letters_and_line_ends) {
  const std::string_view text = "It'S 12345 caf\u00e9s!\n/x  y";
  EXPECT_EQ(split_by(kGlm, text),
            (Words{"It", "'S", " ", "123", "45", " caf\u00e9s", "!\n", "/x", " ", " y"}));
  EXPECT_EQ(split_by(kQwen, "x123"), (Words{"x", "1", "2", "3"}));
  EXPECT_EQ(split_by(kO200k, "HelloWorld's!/\n"), (Words{"Hello", "World's", "!/\n"}));
  EXPECT_EQ(split_by(kCl100k, "a\n\n\nb"), (Words{"a", "\n\n\n", "b"}));
  EXPECT_EQ(split(byte_level(/*use_regex=*/true), "it's  1234 'S"),
            (Words{"it", "'s", " ", " 1234", " '", "S"}));
  EXPECT_EQ(split(byte_level(), "it's 1"), Words{"it's 1"});
}

TEST(Pretokenizer, deepseek_splits_by_three_patterns_one_after_another) {
  const Json json = sequence({split_step(kDeepseekDigits), split_step(kDeepseekHan),
                              split_step(kDeepseekWords), byte_level()});
  EXPECT_EQ(split(json, "x1234\u4f60\u597d, \u3053\u3093x .y"),
            (Words{"x", "123", "4", "\u4f60\u597d", ",", " ", "\u3053\u3093", "x", " .", "y"}));
}

TEST(Pretokenizer, removing_all_but_matches_keeps_them) {
  EXPECT_EQ(split(sequence({split_step(kDeepseekDigits, "Removed", true), byte_level()}), "a1b23"),
            (Words{"1", "23"}));
}

TEST(Pretokenizer, white_space_is_that_of_unicode) {
  EXPECT_EQ(split_by(kGlm, "a\u0085\u2028"), (Words{"a", "\u0085\u2028"}));
  EXPECT_EQ(split_by(kGlm, "!\u180e\u2028"), (Words{"!\u180e", "\u2028"}));  // a format character
}

TEST(Pretokenizer, long_runs_neither_fail_nor_hang) {
  const std::size_t n = 1 << 20;
  for (const char* pattern : {kGlm, kCl100k, kO200k, kDeepseekWords}) {
    EXPECT_EQ(split_by(pattern, std::string(n, ' ') + "x").size(), 2u) << pattern;
    EXPECT_EQ(split_by(pattern, std::string(n, 'x')).size(), 1u) << pattern;
    EXPECT_EQ(split_by(pattern, std::string(n, '\n') + " ").size(), 2u) << pattern;
    EXPECT_EQ(split_by(pattern, std::string(n, '!')).size(), 1u) << pattern;
  }
}

TEST(Pretokenizer, other_patterns_and_steps_are_refused_by_name) {
  const struct {
    Json json;
    const char* message;
  } cases[] = {
      {sequence({split_step("a+|x"), byte_level()}),
       "pre_tokenizer.pretokenizers[0].pattern: unknown pattern \"a+|x\"; glint knows those of "
       "GLM, Llama 3, Qwen, DeepSeek-V3, GPT-2, cl100k and o200k"},
      {sequence({split_step(kGlm, "Contiguous"), byte_level()}), "behavior \"Contiguous\""},
      {sequence({split_step(kGlm, "Removed"), byte_level()}), "behavior \"Removed\""},
      {sequence({split_step(kGlm)}), "its last step is not ByteLevel"},
      {sequence({}), "its last step is not ByteLevel"},
      {sequence({byte_level(), split_step(kGlm)}), "[1]: a step after ByteLevel"},
      {sequence(Json::Array(70, split_step(kGlm))), "more than 64 splits"},
      {nullptr, "expected an object, found null"},
      {json_of(R"({"type": "Metaspace", "replacement": "_"})"),
       "unsupported type \"Metaspace\"; glint knows Sequence, Split, ByteLevel"},
      {json_of(R"({"type": "ByteLevel", "add_prefix_space": true})"),
       "\"add_prefix_space\" is true"},
      {sequence({json_of(
           R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": false})")}),
       "pattern: \"Regex\" is missing"},
  };
  for (const auto& [json, message] : cases) {
    EXPECT_NE(error_of(json).find(message), std::string::npos) << message << "\n" << error_of(json);
  }
}

}  // namespace
}  // namespace glint
