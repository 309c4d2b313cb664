#include "base/str.h"

#include <gtest/gtest.h>

#include <cmath>

namespace glint {
namespace {

TEST(Str, joins_texts_and_numbers_as_a_stream_prints_them) {
  EXPECT_EQ(str("layer ", 3, ": ", 0.5, 'x'), "layer 3: 0.5x");
  EXPECT_EQ(str(), "");
  EXPECT_EQ(str(std::string(300, 'a'), std::string_view("bc").substr(1)),
            std::string(300, 'a') + "c");
  EXPECT_EQ(str(INT64_MIN, ' ', UINT64_MAX, ' ', std::int16_t{-7}, ' ', true),
            "-9223372036854775808 18446744073709551615 -7 1");
  EXPECT_EQ(str(1e-300, ' ', -1234567.0, ' ', 0.1F, ' ', 1.0 / 3, ' ', std::nan("")),
            "1e-300 -1.23457e+06 0.1 0.333333 nan");
}

TEST(Str, formatted_prints_as_printf_does_at_any_length) {
  EXPECT_EQ(formatted("%5.1f %s %%", 1.25, "a"), "  1.2 a %");
  EXPECT_EQ(formatted("%s", ""), "");
  EXPECT_EQ(formatted("%1000d", 7), std::string(999, ' ') + "7");
}

TEST(Str, one_thing_is_no_things) {
  EXPECT_EQ(counted(1, "file"), "1 file");
  EXPECT_EQ(counted(0, "file"), "0 files");
  EXPECT_EQ(counted(21, "file"), "21 files");
}

TEST(Str, durations_have_the_units_that_tell_something) {
  EXPECT_EQ(duration_text(0.4), "0 s");
  EXPECT_EQ(duration_text(59.4), "59 s");
  EXPECT_EQ(duration_text(59.6), "1 min 0 s");
  EXPECT_EQ(duration_text(185), "3 min 5 s");
  EXPECT_EQ(duration_text(7800), "2 h 10 min");
}

TEST(Str, with_commas_groups_thousands) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(743911218432), "743,911,218,432");
  EXPECT_EQ(with_commas(-123456), "-123,456");
  EXPECT_EQ(with_commas(INT64_MIN), "-9,223,372,036,854,775,808");
}

TEST(Str, human_bytes_has_four_digits_and_a_binary_unit) {
  EXPECT_EQ(human_bytes(12), "12 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(1.5 * (1ull << 40)), "1.5 TiB");
  EXPECT_EQ(human_bytes(704.23 * (1 << 30)), "704.2 GiB");
}

TEST(Str, escape_html_leaves_no_markup) {
  EXPECT_EQ(escape_html("<a b=\"c\" d='e'>&"), "&lt;a b=&#34;c&#34; d=&#39;e&#39;&gt;&amp;");
}

TEST(Str, split_keeps_empty_pieces) {
  EXPECT_EQ(split("", ','), std::vector<std::string_view>{""});
  EXPECT_EQ(split("a,,b,", ','), (std::vector<std::string_view>{"a", "", "b", ""}));
}

TEST(Str, trimmed_leaves_what_is_between_blanks) {
  EXPECT_EQ(trimmed(" \ta b\r\n"), "a b");
  EXPECT_EQ(trimmed("\n a ", " "), "\n a");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Str, lower_leaves_all_but_capitals) {
  EXPECT_EQ(lower("Text/HTML; q=\"@[`{\" \xc3\x84"), "text/html; q=\"@[`{\" \xc3\x84");
}

TEST(Str, quoted_shows_hostile_text_safely) {
  EXPECT_EQ(quoted("plain"), "\"plain\"");
  EXPECT_EQ(quoted("a\"b\\c\n\x1b\xff"), R"("a\"b\\c\x0a\x1b\xff")");
  EXPECT_EQ(quoted("abcdef", 3), "\"abc...\"");
  EXPECT_EQ(quoted("Jos\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80"),
            "\"Jos\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80\"");
  EXPECT_EQ(quoted("Jos\xc3\xa9", 4), "\"Jos\\xc3...\"");  // a character is not shown by half
  // Too long a form, a surrogate, beyond Unicode, a control character of two bytes, a lone tail.
  EXPECT_EQ(quoted("\xc1\x81"), "\"\\xc1\\x81\"");
  EXPECT_EQ(quoted("\xe0\x80\x81"), "\"\\xe0\\x80\\x81\"");
  EXPECT_EQ(quoted("\xed\xa0\x80"), "\"\\xed\\xa0\\x80\"");
  EXPECT_EQ(quoted("\xf4\x90\x80\x80"), "\"\\xf4\\x90\\x80\\x80\"");
  EXPECT_EQ(quoted("\xc2\x9b"), "\"\\xc2\\x9b\"");
  EXPECT_EQ(quoted("\xa9"), "\"\\xa9\"");
}

TEST(Str, did_you_mean_finds_the_nearest_or_nothing) {
  const std::vector<std::string> names = {"generate", "tokenize", "detokenize", "inspect"};
  EXPECT_EQ(did_you_mean("generat", names), "generate");
  EXPECT_EQ(did_you_mean("TOKENISE", names), "tokenize");
  EXPECT_EQ(did_you_mean("detokenise", names), "detokenize");
  EXPECT_EQ(did_you_mean("detok", names), "detokenize");
  EXPECT_EQ(did_you_mean("--temp", {"--help", "--temperature"}), "--temperature");
  EXPECT_EQ(did_you_mean("xyzzy", names), "");
  EXPECT_EQ(did_you_mean("", {}), "");
}

}  // namespace
}  // namespace glint
