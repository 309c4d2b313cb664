#include "text/tokenizer/unicode.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace glint {
namespace {

constexpr const char* kBad = "\xEF\xBF\xBD";

TEST(Utf8, each_maximal_invalid_part_becomes_one_replacement) {
  const std::string bad = kBad;
  EXPECT_EQ(lossy_utf8("a\xFFz"), "a" + bad + "z");
  EXPECT_EQ(lossy_utf8("\xE4\xBD"), bad);  // a beginning of a character
  EXPECT_EQ(lossy_utf8("\xE4\xBDz"), bad + "z");
  EXPECT_EQ(lossy_utf8("\xF0\x9F\x98\xF0\x9F"), bad + bad);
  EXPECT_EQ(lossy_utf8("\xC0\x80"), bad + bad);  // overlong
  EXPECT_EQ(lossy_utf8("\xE0\x9F\xBF"), bad + bad + bad);
  EXPECT_EQ(lossy_utf8("\xED\xA0\x80"), bad + bad + bad);            // a surrogate
  EXPECT_EQ(lossy_utf8("\xF4\x90\x80\x80"), bad + bad + bad + bad);  // past U+10FFFF
  EXPECT_EQ(lossy_utf8("\xBF"), bad);
}

TEST(Utf8, every_code_point_survives) {
  std::string all;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::size_t begin = all.size();
    append_utf8(all, c);
    std::size_t at = begin;
    ASSERT_EQ(next_code_point(all, at), c);
    ASSERT_EQ(at, all.size());
  }
  EXPECT_TRUE(is_valid_utf8(all));
  EXPECT_EQ(lossy_utf8(all), all);
  all[all.size() / 2] = '\xFF';
  EXPECT_FALSE(is_valid_utf8(all));
}

TEST(Utf8, in_pieces_as_in_one) {
  Random random(3);
  static constexpr std::string_view kBytes = "aaz\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x98\x80\xFF\xED\xC0";
  for (int round = 0; round < 20000; ++round) {
    std::string bytes, out, held;
    for (std::uint32_t n = random.below(9); n > 0; --n) {
      bytes += kBytes[random.below(static_cast<std::uint32_t>(kBytes.size()))];
    }
    for (const char c : bytes) {
      held += c;
      held.erase(0, append_lossy_utf8(out, held, /*last=*/false));
      ASSERT_TRUE(is_valid_utf8(out));
      ASSERT_LT(held.size(), 4u);
    }
    append_lossy_utf8(out, held);
    ASSERT_EQ(out, lossy_utf8(bytes));
  }
}

TEST(NormalForm, composes_decomposes_and_orders) {
  EXPECT_EQ(normalize("e\u0301", NormalForm::kNfc), "\u00e9");
  EXPECT_EQ(normalize("\u00e9", NormalForm::kNfd), "e\u0301");
  EXPECT_EQ(normalize("q\u0307\u0323", NormalForm::kNfc), "q\u0323\u0307");
  EXPECT_EQ(normalize("d\u0307\u0323", NormalForm::kNfc), "\u1e0d\u0307");
  EXPECT_EQ(normalize("\u212b", NormalForm::kNfc), "\u00c5");        // a singleton
  EXPECT_EQ(normalize("\u0958", NormalForm::kNfc), "\u0915\u093c");  // excluded from composing
  EXPECT_EQ(normalize("\u1112\u1161\u11ab", NormalForm::kNfc), "\ud55c");
  EXPECT_EQ(normalize("\ud55c", NormalForm::kNfd), "\u1112\u1161\u11ab");
  EXPECT_EQ(normalize("\u0301a", NormalForm::kNfc), "\u0301a");
  EXPECT_EQ(normalize("\uac00\u11a7\u11a8", NormalForm::kNfc), "\uac00\u11a7\u11a8");
}

TEST(NormalForm, of_compatibility) {
  EXPECT_EQ(normalize("\ufb01 \u00bd \uff21\uff76\uff9e", NormalForm::kNfkc),
            "fi 1\u20442 A\u30ac");
  EXPECT_EQ(normalize("\u1e9b\u0323", NormalForm::kNfkd), "s\u0323\u0307");
  EXPECT_EQ(normalize("\u1e9b\u0323", NormalForm::kNfkc), "\u1e69");
  EXPECT_EQ(normalize("\ufdfa", NormalForm::kNfkd).size(), 33u);  // 18 characters
}

TEST(NormalForm, is_that_of_unicode_9) {
  // U+11938 decomposes since Unicode 13: in 9.0 it was not assigned.
  EXPECT_EQ(normalize("\U00011938", NormalForm::kNfd), "\U00011938");
  EXPECT_EQ(normalize("\U00011935\U00011930", NormalForm::kNfc), "\U00011935\U00011930");
  // U+1DFA has a combining class since 14.0: here no mark passes it.
  EXPECT_EQ(normalize("a\u1dfa\u0301", NormalForm::kNfc), "a\u1dfa\u0301");
}

TEST(NormalForm, a_long_run_of_marks_takes_no_quadratic_time) {
  std::string marks = "e";
  for (int i = 0; i < 200000; ++i) marks += i % 2 ? "\u0323" : "\u0301";
  const std::string composed = normalize(marks, NormalForm::kNfc);
  EXPECT_EQ(composed.substr(0, 3), "\u1eb9");
  EXPECT_EQ(normalize(composed, NormalForm::kNfc), composed);
}

}  // namespace
}  // namespace glint
