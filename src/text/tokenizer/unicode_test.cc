#include "text/tokenizer/unicode.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(Nfc, composes_and_orders) {
  EXPECT_EQ(to_nfc("e\u0301"), "\u00e9");
  EXPECT_EQ(to_nfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(to_nfc("d\u0307\u0323"), "\u1e0d\u0307");
  EXPECT_EQ(to_nfc("\u212b"), "\u00c5");        // a singleton
  EXPECT_EQ(to_nfc("\u0958"), "\u0915\u093c");  // excluded from composing
  EXPECT_EQ(to_nfc("\u1112\u1161\u11ab"), "\ud55c");
  EXPECT_EQ(to_nfc("\u0301a"), "\u0301a");
  EXPECT_EQ(to_nfc("\uac00\u11a7\u11a8"), "\uac00\u11a7\u11a8");
}

TEST(Nfc, is_that_of_unicode_9) {
  // U+11938 decomposes since Unicode 13: in 9.0 it was not assigned.
  EXPECT_EQ(to_nfc("\U00011935\U00011930"), "\U00011935\U00011930");
  // U+1DFA has a combining class since 14.0: here no mark passes it.
  EXPECT_EQ(to_nfc("a\u1dfa\u0301"), "a\u1dfa\u0301");
}

TEST(Nfc, a_long_run_of_marks_takes_no_quadratic_time) {
  std::string marks = "e";
  for (int i = 0; i < 200000; ++i) marks += i % 2 ? "\u0323" : "\u0301";
  const std::string composed = to_nfc(marks);
  EXPECT_EQ(composed.substr(0, 3), "\u1eb9");
  EXPECT_EQ(to_nfc(composed), composed);
}

}  // namespace
}  // namespace glint
