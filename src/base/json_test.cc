#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace glint {
namespace {

std::string error_of(std::string_view text, JsonLimits limits = {}) {
  const Result<Json> parsed = parse_json(text, limits);
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(Json, keeps_order_and_kinds) {
  const std::string text = R"({"b": [1, -2.5, "x\n\u00e9", null, true], "a": {}, "c": []})";
  const Json value = parse_json(text).value();
  EXPECT_EQ(dump_json(value, JsonStyle::kPython),
            "{\"b\": [1, -2.5, \"x\\n\xc3\xa9\", null, true], \"a\": {}, \"c\": []}");
  EXPECT_EQ(dump_json(value), "{\"b\":[1,-2.5,\"x\\n\xc3\xa9\",null,true],\"a\":{},\"c\":[]}");
  EXPECT_EQ(parse_json(dump_json(value, JsonStyle::kIndent2)).value(), value);
}

TEST(Json, doubles_survive_to_the_last_bit) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t bits = random();
    double value;
    memcpy(&value, &bits, 8);
    if (!std::isfinite(value)) continue;
    char text[40];
    snprintf(text, sizeof text, "%.17g", value);
    if (!strpbrk(text, ".e")) continue;
    EXPECT_EQ(parse_json(text).value().as_double(), value) << text;
    EXPECT_EQ(std::strtod(format_double(value).c_str(), nullptr), value) << text;
  }
}

// As in Python, whether the text has an exponent or hundreds of digits.
TEST(Json, numbers_beyond_the_largest_double_are_infinite_and_below_the_least_zero) {
  const auto value = [](const std::string& text) { return parse_json(text).value().as_double(); };
  const std::string zeros(400, '0');
  EXPECT_EQ(value("1e400"), HUGE_VAL);
  EXPECT_EQ(value("-1e400"), -HUGE_VAL);
  EXPECT_EQ(value("1" + zeros + ".0"), HUGE_VAL);
  EXPECT_EQ(value("1" + zeros + "e-1"), HUGE_VAL);
  EXPECT_EQ(value("1e-400"), 0);
  EXPECT_EQ(value("0." + zeros + "1"), 0);
  EXPECT_EQ(value("0." + zeros + "1e1"), 0);
  EXPECT_TRUE(std::signbit(value("-1e-400")));
  EXPECT_EQ(value("4.9e-324"), 4.9e-324);
  EXPECT_EQ(dump_json(parse_json("[-1e400]").value()), "[-1e400]");  // not -Infinity
}

TEST(Json, format_double_is_pythons_repr) {
  EXPECT_EQ(format_double(1), "1.0");
  EXPECT_EQ(format_double(0.1), "0.1");
  EXPECT_EQ(format_double(1e5), "100000.0");
  EXPECT_EQ(format_double(1e16), "1e+16");
  EXPECT_EQ(format_double(123456789012345680.0), "1.2345678901234568e+17");
  EXPECT_EQ(format_double(1e-4), "0.0001");
  EXPECT_EQ(format_double(1e-5), "1e-05");
  EXPECT_EQ(format_double(-0.0), "-0.0");
  EXPECT_EQ(format_double(1e300), "1e+300");
}

TEST(Json, integers_of_any_size) {
  EXPECT_EQ(parse_json("9223372036854775807").value().as_int(), INT64_MAX);
  EXPECT_EQ(parse_json("9223372036854775808").value().as_big_number().text, "9223372036854775808");
  EXPECT_EQ(dump_json(parse_json("-123456789012345678901234567890").value()),
            "-123456789012345678901234567890");
}

TEST(Json, what_is_no_utf8_is_written_as_such) {
  EXPECT_EQ(dump_json(Json("a\xff\xfe/b")), "\"a\uFFFD\uFFFD/b\"");
}

TEST(Json, repeated_keys) {
  EXPECT_EQ(dump_json(parse_json(R"({"a":1,"b":2,"a":3})").value()), R"({"a":3,"b":2})");
  EXPECT_NE(
      error_of(R"({"a":1,"a":2})", {.allow_duplicate_keys = false}).find("repeated key \"a\""),
      std::string::npos);
}

TEST(Json, errors_say_where) {
  EXPECT_EQ(error_of("{\n  \"a\": tru }").substr(0, 8), "line 2, ");
  EXPECT_NE(error_of("[1] 2").find("more text"), std::string::npos);
  EXPECT_NE(error_of(""), "");
  EXPECT_NE(error_of("{\"a\": 1"), "");
  EXPECT_EQ(error_of("12"), "");
  EXPECT_EQ(error_of("\xef\xbb\xbf{}"), "");
}

TEST(Json, half_a_character_is_told) {
  for (const char* text : {R"("\ud83d")", R"("a\uD83Dx")", R"("\ud83d\n")"})
    EXPECT_NE(parse_json(text).error().message.find("half of a surrogate pair"), std::string::npos);
  EXPECT_EQ(parse_json(R"("\ud83d\ude00")").value().as_string(), "\xf0\x9f\x98\x80");
  EXPECT_EQ(parse_json(R"("\u0041)").error().message.find("half"), std::string::npos);
}

TEST(Json, values_and_members_are_limited) {
  const std::string text = R"({"a":{"b":1,"b":2},"c":[3]})";
  EXPECT_EQ(error_of(text, {.max_values = 6, .max_members = 4}), "");
  EXPECT_NE(error_of(text, {.max_values = 5}).find("too many values"), std::string::npos);
  EXPECT_NE(error_of(text, {.max_members = 3}).find("too many members"), std::string::npos);
}

TEST(Json, nesting_is_limited) {
  EXPECT_NE(error_of(std::string(100'000'000, '[')), "");
  EXPECT_EQ(error_of(std::string(200, '[') + std::string(200, ']')), "");
}

}  // namespace
}  // namespace glint
