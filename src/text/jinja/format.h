// Python's two ways of formatting texts: "%s" % values and "{}".format(values).
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/object.h"

namespace glint::jinja {

// `text` % `values`: values is a tuple, a dict for %(name)s, or one value.
Result<Value> format_percent(Runtime& runtime, const Value& text, const Value& values);

// text.format(*positional, **named).
Result<Value> format_braces(Runtime& runtime, const Value& text, const Arguments& arguments);

// A number in one of Python's styles.
struct NumberStyle {
  char type = 'd';           // of d b o x X c, or e E f F g G %
  int precision = -1;        // -1: the type's own
  bool alternate = false;    // "#": 0x in front, the point always
  bool keeps_point = false;  // of g: "3.0" and not "3"
  char sign = '-';           // "+" and " " mark what is not negative
  char grouping = '\0';      // "," or "_" between groups of digits
};

// What padding with zeros must keep apart: zeros go between prefix and digits.
struct FormattedNumber {
  std::string prefix;  // sign and 0x
  std::string digits;
};
Result<FormattedNumber> format_integer(const Value& value, const NumberStyle& style);
Result<FormattedNumber> format_float(double value, const NumberStyle& style);
// Puts a separator between groups of `size` of the digits before the point or exponent.
void group_digits(std::string& digits, char separator, std::size_t size);

inline constexpr int kMaxPrecision = 10000;

// ascii(value): repr with everything beyond ASCII escaped.
std::string escape_non_ascii(std::string_view repr);

}  // namespace glint::jinja
