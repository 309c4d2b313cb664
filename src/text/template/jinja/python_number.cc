#include "text/template/jinja/python_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/str.h"
#include "base/utf8.h"
#include "text/template/jinja/characters.h"

namespace glint {
namespace {

constexpr std::size_t kMaxDigits = 4300;  // of int(), against quadratic time
constexpr std::string_view kDigits = "0123456789";

// Each decimal digit of any script as ASCII.
std::string with_ascii_digits(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_code_point(text, at);
    if (const int digit = c < 0x80 ? -1 : jinja::decimal_digit(c); digit >= 0) {
      out += static_cast<char>('0' + digit);
    } else {
      out += text.substr(begin, at - begin);
    }
  }
  return out;
}

// `text` without the blanks around it and the underscores between digits, its decimal digits as
// ASCII. Nothing if an underscore stands anywhere else.
std::optional<std::string> clean_number(std::string_view text) {
  const std::string digits = with_ascii_digits(jinja::strip(text));
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] != '_') {
      out += digits[i];
    } else if (i == 0 || i + 1 == digits.size() || !is_digit(digits[i - 1]) ||
               !is_digit(digits[i + 1])) {
      return {};
    }
  }
  return out;
}

}  // namespace

std::optional<Json> parse_python_int(std::string_view text) {
  std::optional<std::string> number = clean_number(text);
  if (!number || number->empty()) return {};
  const bool negative = number->front() == '-';
  if (negative || number->front() == '+') number->erase(0, 1);
  std::string& digits = *number;
  if (digits.empty() || digits.find_first_not_of(kDigits) != digits.npos) return {};
  if (digits.size() > kMaxDigits) return {};
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  if (negative && digits != "0") digits.insert(0, 1, '-');
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error == std::errc() && stop == end) return Json(value);
  return Json(Json::BigNumber{std::move(digits)});
}

std::optional<double> parse_python_float(std::string_view text) {
  const std::optional<std::string> number = clean_number(text);
  if (!number || number->empty()) return {};
  std::string lower = jinja::to_lower(*number);
  if (lower[0] == '+' || lower[0] == '-') lower.erase(0, 1);
  const bool named = lower == "inf" || lower == "infinity" || lower == "nan";
  if (!named && (lower.empty() || lower.find_first_not_of("0123456789.e+-") != lower.npos))
    return {};
  char* end = nullptr;
  const double value = std::strtod(number->c_str(), &end);
  if (end != number->c_str() + number->size()) return {};
  return value;
}

Json truncated(double value) {
  if (std::fabs(value) < 0x1p63) return Json(static_cast<std::int64_t>(value));
  return Json(Json::BigNumber{formatted("%.0f", std::trunc(value))});
}

}  // namespace glint
