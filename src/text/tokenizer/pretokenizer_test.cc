#include "text/tokenizer/pretokenizer.h"

#include <gtest/gtest.h>

#include "text/tokenizer/pretokenizer_syntax.h"
#include "text/tokenizer/tokenizer_testing.h"

namespace glint {
namespace {

using Words = std::vector<std::string>;

struct Collector : WordSink {
  Words words;
  void word(std::string_view word) override { words.emplace_back(word); }
};

Words split(const Json& json, std::string_view text, std::size_t start = 1) {
  Regex::Scratch scratch;
  Collector collector;
  const Pretokenizer pretokenizer = Pretokenizer::parse(json).value();
  EXPECT_TRUE(pretokenizer.split(text, start, scratch, collector).ok());
  return collector.words;
}

Words split_by(const char* pattern, const char* behavior, std::string_view text,
               bool invert = false) {
  return split(Json::Object{{"type", "Split"},
                            {"pattern", Json::Object{{"Regex", pattern}}},
                            {"behavior", behavior},
                            {"invert", invert}},
               text);
}

TEST(Pretokenizer, behaviors) {
  const std::string_view text = "the-final--countdown";
  EXPECT_EQ(split_by("-", "Removed", text), (Words{"the", "final", "countdown"}));
  EXPECT_EQ(split_by("-", "Isolated", text), (Words{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split_by("-", "MergedWithPrevious", text), (Words{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split_by("-", "MergedWithNext", text), (Words{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split_by("-", "Contiguous", text), (Words{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(split_by("[a-z]+", "Removed", text, /*invert=*/true),
            (Words{"the", "final", "countdown"}));
}

TEST(Pretokenizer, empty_matches_split_too) {
  EXPECT_EQ(split_by("", "Isolated", "a\u00e9"), (Words{"a", "\u00e9"}));
  EXPECT_EQ(split_by("x*", "Isolated", "axxb"), (Words{"a", "xx", "b"}));
}

TEST(Pretokenizer, other_types) {
  EXPECT_EQ(split(json_of(R"({"type": "Digits", "individual_digits": true})"), "a12\u00bd"),
            (Words{"a", "1", "2", "\u00bd"}));
  EXPECT_EQ(split(json_of(R"({"type": "Digits", "individual_digits": false})"), "a12b"),
            (Words{"a", "12", "b"}));
  EXPECT_EQ(split(json_of(R"({"type": "Whitespace"})"), "it's  x"), (Words{"it", "'", "s", "x"}));
  EXPECT_EQ(split(json_of(R"({"type": "WhitespaceSplit"})"), " it's\u3000x"), (Words{"it's", "x"}));
  const Json metaspace = json_of(
      R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": true})");
  EXPECT_EQ(split(metaspace, "a b"), (Words{"_a", "_b"}));
  EXPECT_EQ(split(metaspace, "a b", /*start=*/0), (Words{"a", "_b"}));
  const Json bytes =
      json_of(R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true})");
  EXPECT_EQ(split(bytes, "it's  12"), (Words{" it", "'s", " ", " 12"}));
  EXPECT_TRUE(Pretokenizer::parse(bytes).value().gives_bytes());
  EXPECT_EQ(split(json_of(R"({"type": "Punctuation", "behavior": "Contiguous"})"), "a?!b\u2e52"),
            (Words{"a", "?!", "b\u2e52"}));  // U+2E52 came with Unicode 14
  EXPECT_EQ(split(json_of(R"({"type": "BertPreTokenizer"})"), "it's  x"),
            (Words{"it", "'", "s", "x"}));
  EXPECT_EQ(split(json_of(R"({"type": "CharDelimiterSplit", "delimiter": "-"})"), "a--b"),
            (Words{"a", "b"}));
  EXPECT_EQ(split(json_of(R"({"type": "FixedLength", "length": 2})"), "\u00e9\nb"),
            (Words{"\u00e9\n", "b"}));
  EXPECT_EQ(split(nullptr, "a b"), Words{"a b"});
}

TEST(Pretokenizer, white_space_is_that_of_unicode) {
  EXPECT_EQ(split_by("\\s", "Removed", "a\u0085b\u180ec\u2028d"), (Words{"a", "b\u180ec", "d"}));
  EXPECT_EQ(split_by("[^\\S\\n]+", "Removed", "a \n\tb"), (Words{"a", "\n", "b"}));
}

TEST(Pretokenizer, long_runs_neither_fail_nor_hang) {
  const char* kLlama =
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
      "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  const std::size_t n = 1 << 20;
  EXPECT_EQ(split_by(kLlama, "Isolated", std::string(n, ' ') + "x").size(), 2u);
  EXPECT_EQ(split_by(kLlama, "Isolated", std::string(n, 'x')).size(), 1u);
  EXPECT_EQ(split_by(kLlama, "Isolated", std::string(n, '\n') + " ").size(), 2u);
  EXPECT_EQ(split_by(kLlama, "Isolated", std::string(n, '!')).size(), 1u);
  // A group that repeats keeps state for each time round.
  EXPECT_EQ(split_by("(?:ab|c)+", "Isolated", std::string(n, 'c') + "d").size(), 2u);
}

std::string translated(const char* pattern) {
  const Result<Pcre2Pattern> result = translate_oniguruma(pattern);
  return result.ok() ? result.value().text : "error: " + result.error().message;
}

TEST(OnigurumaSyntax, what_means_something_else_in_pcre2_is_rewritten) {
  EXPECT_EQ(translated("(a)\\p{Han}"), "(?:a)\\p{sc:Han}");
  EXPECT_EQ(translated("\\p{^lu}\\P{^Letter}"), "\\P{Lu}\\p{L}");
  EXPECT_EQ(translated("a{1,3}+"), "(?:a{1,3})+");
  EXPECT_EQ(translated("[ab]{2}?"), "(?:[ab]{2})?");
  EXPECT_EQ(translated("a{,2}b{x"), "a{0,2}b\\x{7B}x");
  EXPECT_EQ(translated("(?m:.)"), "(?s:.)");
  EXPECT_EQ(translated("[\\s-z]"), "[\\p{White_Space}\\x{2D}z]");
  EXPECT_EQ(translated("[]a]"), "[\\x{5D}a]");
  EXPECT_EQ(translated("\\h\\u00e9\\x{1F600}"), "[0-9A-Fa-f]\\x{E9}\\x{1F600}");
}

TEST(OnigurumaSyntax, what_has_no_translation_is_refused) {
  for (const char* pattern :
       {"(a)\\1", "\\k<n>",      "(?<n>a)", "a(?i)b",  "(?x)a",     "[a",
        "(a",     "a)",          "*a",      "a**",     "\\",        "\\p{",
        "\\pL",   "\\x{110000}", "\\xE9",   "\\ud800", "[[:odd:]]", "[[[[[[[[[[[[[[[[[[a",
        "(?#a",   "\\Q"}) {
    EXPECT_EQ(translated(pattern).substr(0, 15), "error: at byte ") << pattern;
  }
  EXPECT_FALSE(Regex::from_oniguruma("\\p{Klingon}").ok());
  EXPECT_FALSE(Regex::from_oniguruma(std::string(1000, '(') + "a" + std::string(1000, ')')).ok());
  EXPECT_FALSE(Regex::from_oniguruma("(?:(?:a{9999}){9999}){9999}").ok());
}

}  // namespace
}  // namespace glint
