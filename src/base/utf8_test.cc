#include "base/utf8.h"

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

TEST(Utf8, the_last_character_begins_inside_of_any_bytes) {
  EXPECT_EQ(last_character("a\xC3\xA9"), 1u);
  EXPECT_EQ(last_character(std::string_view("a\xC3\xA9").substr(2)), 0u);
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

}  // namespace
}  // namespace glint
