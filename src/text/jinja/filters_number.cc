// Filters on numbers.
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/str.h"
#include "text/jinja/filters.h"
#include "text/python_number.h"

namespace glint::jinja {
namespace {

// Python's int(text, base).
Result<std::optional<Value>> parse_int(std::string_view text, Int base) {
  if (base != 0 && (base < 2 || base > 36))
    return invalid("int() base must be >= 2 and <= 36, or 0");
  std::optional<std::string> number = clean_python_number(text, /*hex=*/true);
  if (!number) return std::nullopt;
  const bool negative = number->starts_with('-');
  std::string digits = negative || number->starts_with('+') ? number->substr(1) : *number;
  const char marker =
      digits.size() > 2 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : '\0';
  const Int marked = marker == 'x' ? 16 : marker == 'o' ? 8 : marker == 'b' ? 2 : 0;
  if (marked != 0 && (base == marked || base == 0)) {
    digits.erase(0, 2);
    base = marked;
  } else if (base == 0) {
    base = 10;
    if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != digits.npos) {
      return std::nullopt;
    }
  }
  if (digits.empty() || !std::isalnum(static_cast<unsigned char>(digits[0]))) return std::nullopt;
  if (negative) digits.insert(0, 1, '-');
  Int value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, static_cast<int>(base));
  if (stop != end) return std::nullopt;
  if (error == std::errc()) return Value(value);
  if (base != 10) return invalid("integers beyond 64 bits are read in base 10 only");
  if (digits.size() > 4300) return std::nullopt;
  const std::size_t zeros =
      std::min(digits.find_first_not_of('0', negative) - negative, digits.size() - 1);
  return Value(BigInt{digits.erase(negative, zeros)});
}

// Python's int(float): nothing for inf and NaN.
std::optional<Value> truncate(double number) {
  if (!std::isfinite(number)) return {};
  if (std::fabs(number) < 0x1p63) return Value(static_cast<Int>(number));
  return Value(BigInt{formatted("%.0f", std::trunc(number))});
}

Result<Value> int_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("int", arguments, {"default?", "base?"}));
  GLINT_TRY(const Int base, require_int(bound.get(1, Value(10))));
  if (input.is_undefined()) return undefined_error(input);
  if (input.is_bool()) return Value(input.as_int());
  if (input.is_int() || input.kind() == Kind::kBigInt) return input;
  const Value otherwise = bound.get(0, Value(0));
  if (input.is_float()) {
    if (std::isinf(input.as_float())) return invalid("cannot convert float infinity to integer");
    return truncate(input.as_float()).value_or(otherwise);
  }
  if (!input.is_string()) return otherwise;
  GLINT_TRY_STATUS(runtime.budget.spend_reading(input.text().size()));
  Result<std::optional<Value>> whole = parse_int(input.text(), base);
  if (whole.ok() && whole.value()) return *whole.value();
  const std::optional<double> number = parse_python_float(input.text());
  return number ? truncate(*number).value_or(otherwise) : otherwise;
}

Result<Value> float_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("float", arguments, {"default?"}));
  if (input.is_undefined()) return undefined_error(input);
  if (input.is_string()) GLINT_TRY_STATUS(runtime.budget.spend_reading(input.text().size()));
  const std::optional<double> number =
      input.is_string() ? parse_python_float(input.text()) : to_double(input);
  return number ? Value(*number) : bound.get(0, Value(0.0));
}

Result<Value> abs_filter(Runtime&, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("abs", arguments, {}));
  if (input.is_undefined()) return undefined_error(input);
  if (input.is_float()) return Value(std::fabs(input.as_float()));
  if (input.kind() == Kind::kBigInt) {
    return input.big_digits()[0] == '-' ? Value(BigInt{input.big_digits().substr(1)}) : input;
  }
  if (!input.is_int()) return invalid("bad operand type for abs(): '" + input.type_name() + "'");
  return input.as_int() < 0 ? negate(input) : positive(input);
}

// 10 ** n that divides and multiplies exactly enough: n is small.
double power_of_ten(Int n) { return std::pow(10.0, static_cast<double>(n)); }

// round(int, -n): to a multiple of 10 ** n, halves to even.
Result<Value> round_int(Int value, Int digits) {
  if (digits >= 0) return Value(value);
  if (digits < -18) return Value(0);
  Int unit = 1;
  for (Int i = 0; i > digits; --i) unit *= 10;
  Int rest = value % unit, down = value / unit;
  if (rest < 0) rest += unit, --down;
  const bool up = rest > unit - rest || (rest == unit - rest && (down & 1));
  Int result = 0;
  if (__builtin_mul_overflow(down + up, unit, &result)) return beyond_64_bits();
  return Value(result);
}

// round(float, n): the nearest decimal, halves to even, as printf does it.
double round_float(double value, Int digits) {
  if (!std::isfinite(value) || value == 0 || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits < 0) {
    const double unit = power_of_ten(-digits);
    return std::nearbyint(value / unit) * unit;
  }
  return std::strtod(formatted("%.*f", static_cast<int>(digits), value).c_str(), nullptr);
}

Result<Value> round_filter(Runtime&, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("round", arguments, {"precision?", "method?"}));
  GLINT_TRY(const std::string method, require_text(bound.get(1, Value("common")), "method"));
  if (method != "common" && method != "ceil" && method != "floor") {
    return invalid("method must be common, ceil or floor");
  }
  if (input.is_undefined()) return undefined_error(input);
  if (!input.is_number())
    return invalid("type " + input.type_name() + " doesn't define __round__ method");
  const bool to_int = bound.get(0, Value(0)).is_none();  // Python: round(2.7, None) is an int
  Int precision = 0;
  if (!to_int) {
    GLINT_TRY(precision, require_int(bound.get(0, Value(0))));
  }
  if (method == "common") {
    if (to_int && input.is_float()) {
      const std::optional<Value> whole = truncate(round_float(input.as_float(), 0));
      return whole ? Result<Value>(*whole)
                   : invalid("cannot convert float infinity or NaN to integer");
    }
    if (input.is_int()) return round_int(input.as_int(), precision);
    if (!input.is_float()) return precision >= 0 ? Result<Value>(input) : beyond_64_bits();
    return Value(round_float(input.as_float(), precision));
  }
  const double scaled = *to_double(input) * power_of_ten(precision);
  if (!std::isfinite(scaled)) return invalid("cannot convert float infinity or NaN to integer");
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) /
               power_of_ten(precision));
}

Result<Value> file_size_format(Runtime&, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("filesizeformat", arguments, {"binary?"}));
  if (input.is_undefined()) return undefined_error(input);
  const std::optional<double> bytes =
      input.is_string() ? parse_python_float(input.text()) : to_double(input);
  if (!bytes) return invalid("could not convert " + input.type_name() + " to float");
  const bool binary = truthy(bound.get(0, Value(false)));
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return Value("1 Byte");
  if (!std::isfinite(*bytes)) return invalid("cannot convert float infinity or NaN to integer");
  if (*bytes < base) return Value(str(static_cast<Int>(std::max(*bytes, -0x1p62)), " Bytes"));
  static constexpr std::string_view kPrefixes = "KMGTPEZY";
  double unit = base;
  std::size_t prefix = 0;
  while (prefix + 1 < kPrefixes.size() && *bytes >= unit * base) unit *= base, ++prefix;
  const char letter = prefix == 0 && !binary ? 'k' : kPrefixes[prefix];
  return Value(formatted("%.1f %c%s", base * *bytes / (unit * base), letter, binary ? "iB" : "B"));
}

}  // namespace

Filter find_number_filter(std::string_view name) {
  if (name == "abs") return abs_filter;
  if (name == "filesizeformat") return file_size_format;
  if (name == "float") return float_filter;
  if (name == "int") return int_filter;
  if (name == "round") return round_filter;
  return nullptr;
}

}  // namespace glint::jinja
