// The values of string and number literals.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/str.h"
#include "text/jinja/lexer.h"
#include "text/unicode.h"

namespace glint::jinja {
namespace {

// Up to `max` digits of `base` at `at`; moves `at` behind them. Nothing if there are none.
std::optional<std::uint32_t> read_digits(std::string_view text, std::size_t& at, std::size_t max,
                                         int base) {
  std::uint32_t value = 0;
  const char* begin = text.data() + at;
  const char* end = begin + std::min(max, text.size() - at);
  const auto [stop, error] = std::from_chars(begin, end, value, base);
  if (error != std::errc()) return {};
  at += static_cast<std::size_t>(stop - begin);
  return value;
}

// Long decimal digits from any base: schoolbook, because literals are short.
std::string to_decimal(std::string_view digits, int base) {
  std::string decimal = "0";  // least digit first
  for (const char c : digits) {
    int carry = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    for (char& digit : decimal) {
      carry += (digit - '0') * base;
      digit = static_cast<char>('0' + carry % 10);
      carry /= 10;
    }
    for (; carry > 0; carry /= 10) decimal += static_cast<char>('0' + carry % 10);
  }
  return {decimal.rbegin(), decimal.rend()};
}

}  // namespace

Result<std::string> unescape(std::string_view literal) {
  static constexpr std::string_view kSimple = "'\"\\abfnrtv", kMeaning = "'\"\\\a\b\f\n\r\t\v";
  std::string out;
  out.reserve(literal.size());
  for (std::size_t at = 0; at < literal.size();) {
    if (literal[at] != '\\') {
      out += literal[at++];
      continue;
    }
    const char c = literal[++at];  // the lexer saw to it that something follows
    if (c == '\n') {
      ++at;
    } else if (const std::size_t simple = kSimple.find(c); simple != kSimple.npos) {
      out += kMeaning[simple];
      ++at;
    } else if (c >= '0' && c <= '7') {
      append_utf8(out, *read_digits(literal, at, 3, 8));
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t size = c == 'x' ? 2 : c == 'u' ? 4 : 8, start = ++at;
      const std::optional<std::uint32_t> value = read_digits(literal, at, size, 16);
      if (!value || at - start != size) return invalid(str("truncated \\", c, " escape in a text"));
      if (*value >= 0x110000) return invalid(str("\\", c, " escape beyond U+10FFFF in a text"));
      if (*value >= 0xd800 && *value < 0xe000)
        return invalid("surrogate in a text: write the character itself");
      append_utf8(out, *value);
    } else if (c == 'N') {
      return invalid("\\N escapes are not supported: write the character itself");
    } else {
      out += '\\';  // an unknown escape stays; its character follows, outside of ASCII as its code
      if (static_cast<unsigned char>(c) >= 0x80) {
        const char32_t code = next_code_point(literal, at);
        const char* form = code < 0x100 ? "x%02x" : code < 0x10000 ? "u%04x" : "U%08x";
        char name[10];
        std::snprintf(name, sizeof name, form, static_cast<unsigned>(code));
        out += name;
      }
    }
  }
  return out;
}

Value parse_number(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != '_') digits += c;
  }
  const char marker = digits.size() > 1 ? static_cast<char>(digits[1] | 0x20) : '\0';
  const int base = marker == 'x' ? 16 : marker == 'o' ? 8 : marker == 'b' ? 2 : 10;
  if (base == 10 && digits.find_first_of(".eE") != digits.npos)
    return Value(std::strtod(digits.c_str(), nullptr));
  const char* begin = digits.data() + (base == 10 ? 0 : 2);
  const char* end = digits.data() + digits.size();
  Int value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value, base);
  if (error == std::errc() && stop == end) return Value(value);
  return Value(BigInt{base == 10 ? digits : to_decimal(std::string_view(begin, end), base)});
}

}  // namespace glint::jinja
