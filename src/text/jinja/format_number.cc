// Numbers as format specifications ask for them, digit for digit Python's.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/str.h"
#include "text/jinja/format.h"
#include "text/jinja/operations.h"
#include "text/unicode.h"

namespace glint::jinja {
namespace {

std::string digits_of(std::uint64_t value, unsigned base) {
  std::string digits;
  do {
    digits += "0123456789abcdef"[value % base];
    value /= base;
  } while (value != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string sign_of(bool negative, char style) {
  return negative ? "-" : style == '-' ? "" : std::string(1, style);
}

std::string print_float(double value, char type, int precision, bool alternate) {
  const std::string wanted = std::string(alternate ? "%#.*" : "%.*") + type;
  return formatted(wanted.c_str(), precision, value);
}

// Python's format without a type but with a precision: as g, but it shows that the number is a
// float.
std::string print_general_float(double value, int precision) {
  precision = std::max(precision, 1);
  const std::string scientific = print_float(value, 'e', precision - 1, false);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  std::string text = print_float(value, 'g', precision, false);
  if (exponent < -4 || exponent >= precision - 1) {
    if (text.find('e') != text.npos) return text;
    // One digit fewer than g would need for a fixed point: "1.2e+01".
    std::string digits = scientific.substr(0, scientific.find('e'));
    if (digits.find('.') != digits.npos) digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.ends_with('.')) digits.pop_back();
    return digits + scientific.substr(scientific.find('e'));
  }
  if (text.find('.') == text.npos) text += ".0";
  return text;
}

}  // namespace

void group_digits(std::string& digits, char separator, std::size_t size) {
  const std::size_t end =
      std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  for (std::size_t at = end; at > size;) digits.insert(at -= size, 1, separator);
}

Result<FormattedNumber> format_integer(const Value& value, const NumberStyle& style) {
  FormattedNumber result;
  const unsigned base = style.type == 'x' || style.type == 'X' ? 16
                        : style.type == 'o'                    ? 8
                        : style.type == 'b'                    ? 2
                                                               : 10;
  if (value.kind() == Kind::kBigInt) {
    if (base != 10) return invalid("integers beyond 64 bits are printed in base 10 only");
    const bool negative = value.big_digits()[0] == '-';
    result = {sign_of(negative, style.sign), value.big_digits().substr(negative)};
  } else {
    const Int number = value.as_int();
    const std::uint64_t magnitude =
        number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
    result = {sign_of(number < 0, style.sign), digits_of(magnitude, base)};
  }
  if (style.alternate && base != 10) {
    result.prefix += '0';
    result.prefix += style.type;
  }
  if (style.type == 'X') {
    std::transform(result.digits.begin(), result.digits.end(), result.digits.begin(),
                   [](char c) { return c >= 'a' ? static_cast<char>(c - 32) : c; });
  }
  if (style.precision > static_cast<int>(result.digits.size())) {
    result.digits.insert(0, static_cast<std::size_t>(style.precision) - result.digits.size(), '0');
  }
  if (style.grouping) group_digits(result.digits, style.grouping, base == 10 ? 3 : 4);
  return result;
}

Result<FormattedNumber> format_float(double value, const NumberStyle& style) {
  if (style.precision > kMaxPrecision)
    return invalid(str("precision ", style.precision, " is too large"));
  const char lower = static_cast<char>(style.type | 0x20);
  const bool percent = style.type == '%';
  const bool negative = std::signbit(value) && !std::isnan(value);
  std::string digits;
  if (!std::isfinite(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
    if (percent) digits += '%';
  } else {
    const double magnitude = std::fabs(value) * (percent ? 100 : 1);
    const int precision = style.precision < 0 ? 6 : style.precision;
    if (style.keeps_point) {
      digits = print_general_float(magnitude, precision);
    } else {
      digits = print_float(magnitude, percent ? 'f' : lower, precision, style.alternate);
    }
    if (percent) digits += '%';
  }
  if (style.type >= 'A' && style.type <= 'Z') {
    std::transform(digits.begin(), digits.end(), digits.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  }
  if (style.grouping && std::isfinite(value)) group_digits(digits, style.grouping, 3);
  return FormattedNumber{sign_of(negative, style.sign), std::move(digits)};
}

std::string escape_non_ascii(std::string_view repr) {
  std::string out;
  for (std::size_t at = 0; at < repr.size();) {
    const char32_t c = next_code_point(repr, at);
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else {
      append_escaped(out, c);
    }
  }
  return out;
}

}  // namespace glint::jinja
