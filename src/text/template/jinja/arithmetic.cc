// Python's operators on numbers, texts and lists.
#include <cmath>

#include "base/str.h"
#include "text/template/jinja/operations.h"

namespace glint::jinja {
namespace {

const char* sign_of(Operator operation) {
  switch (operation) {
    case Operator::kAdd:
      return "+";
    case Operator::kSub:
      return "-";
    case Operator::kMul:
      return "*";
    case Operator::kDiv:
      return "/";
    case Operator::kFloorDiv:
      return "//";
    case Operator::kMod:
      return "%";
  }
  return "";
}

Result<Value> calculate_ints(Operator operation, Int a, Int b) {
  Int result = 0;
  switch (operation) {
    case Operator::kAdd:
      return __builtin_add_overflow(a, b, &result) ? Result<Value>(beyond_64_bits())
                                                   : Value(result);
    case Operator::kSub:
      return __builtin_sub_overflow(a, b, &result) ? Result<Value>(beyond_64_bits())
                                                   : Value(result);
    case Operator::kMul:
      return __builtin_mul_overflow(a, b, &result) ? Result<Value>(beyond_64_bits())
                                                   : Value(result);
    default:
      break;
  }
  if (b == 0) {
    return invalid(operation == Operator::kDiv ? "division by zero"
                                               : "integer division or modulo by zero");
  }
  // The quotient of 64-bit integers rounds once, as Python's does: long double holds both exactly.
  if (operation == Operator::kDiv) {
    return Value(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
  }
  if (b == -1) {
    if (operation == Operator::kMod) return Value(0);
    return calculate_ints(Operator::kSub, 0, a);
  }
  const bool round_down = a % b != 0 && ((a < 0) != (b < 0));
  if (operation == Operator::kMod) return Value(round_down ? a % b + b : a % b);
  return Value(round_down ? a / b - 1 : a / b);
}

// CPython's float_divmod: both results, with the signs of zero.
struct DivMod {
  double quotient, remainder;
};
DivMod divide_floats(double a, double b) {
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) remainder += b, quotient -= 1;
  } else {
    remainder = std::copysign(0.0, b);
  }
  if (quotient == 0) return {std::copysign(0.0, a / b), remainder};
  double whole = std::floor(quotient);
  if (quotient - whole > 0.5) whole += 1;
  return {whole, remainder};
}

Result<Value> calculate_floats(Operator operation, double a, double b) {
  const bool divides = operation == Operator::kDiv || operation == Operator::kFloorDiv ||
                       operation == Operator::kMod;
  if (divides && b == 0) {
    return invalid(operation == Operator::kMod        ? "float modulo"
                   : operation == Operator::kFloorDiv ? "float floor division by zero"
                                                      : "float division by zero");
  }
  switch (operation) {
    case Operator::kAdd:
      return Value(a + b);
    case Operator::kSub:
      return Value(a - b);
    case Operator::kMul:
      return Value(a * b);
    case Operator::kDiv:
      return Value(a / b);
    case Operator::kFloorDiv:
      return Value(divide_floats(a, b).quotient);
    case Operator::kMod:
      return Value(divide_floats(a, b).remainder);
  }
  return Value();
}

Error unsupported(Operator operation, const Value& a, const Value& b) {
  if (operation == Operator::kAdd && (a.is_string() || a.is_list() || a.is_tuple())) {
    return invalid(str("can only concatenate ", a.type_name(), " (not \"", b.type_name(), "\") to ",
                       a.type_name()));
  }
  return invalid(str("unsupported operand type(s) for ", sign_of(operation), ": '", a.type_name(),
                     "' and '", b.type_name(), "'"));
}

Result<Value> concatenate(Runtime& runtime, const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) {
    GLINT_TRY_STATUS(runtime.budget.spend_bytes(a.text().size() + b.text().size()));
    if (a.is_markup() == b.is_markup()) return Value(a.text() + b.text(), a.is_markup());
    const std::string left = a.is_markup() ? a.text() : escape_html(a.text());
    return Value(left + (b.is_markup() ? b.text() : escape_html(b.text())), true);
  }
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    std::vector<Value> items;
    GLINT_TRY_STATUS(runtime.budget.spend_steps(a.items().size() + b.items().size()));
    items.reserve(a.items().size() + b.items().size());
    items.insert(items.end(), a.items().begin(), a.items().end());
    items.insert(items.end(), b.items().begin(), b.items().end());
    return runtime.make_items(a.as_items().type, std::move(items));
  }
  return unsupported(Operator::kAdd, a, b);
}

// `value` (a text, list or tuple) `count` times.
Result<Value> repeat(Runtime& runtime, const Value& value, Int count) {
  const auto times = static_cast<std::uint64_t>(std::max<Int>(count, 0));
  const std::size_t size = value.is_string() ? value.text().size() : value.items().size();
  const std::uint64_t unit = value.is_string() ? size : size * sizeof(Value);
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(times, unit, &bytes)) bytes = UINT64_MAX;
  GLINT_TRY_STATUS(runtime.budget.spend_bytes(bytes));
  if (size == 0) return value;
  if (value.is_string()) {
    std::string text;
    text.reserve(bytes);
    for (std::uint64_t i = 0; i < times; ++i) text += value.text();
    return Value(std::move(text), value.is_markup());
  }
  std::vector<Value> items;
  items.reserve(size * times);
  for (std::uint64_t i = 0; i < times; ++i)
    items.insert(items.end(), value.items().begin(), value.items().end());
  return runtime.make_items(value.as_items().type, std::move(items));
}

// `value` is an int or a float.
double to_double(const Value& value) {
  return value.is_float() ? value.as_float() : static_cast<double>(value.as_int());
}

bool can_repeat(const Value& value) {
  return value.is_string() || value.is_list() || value.is_tuple();
}

}  // namespace

Result<Value> calculate(Runtime& runtime, Operator operation, const Value& a, const Value& b) {
  // Before an undefined right side is refused: '%s' % undefined prints nothing.
  if (operation == Operator::kMod && a.is_string()) return format_percent(runtime, a, b);
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  if (a.is_int() && b.is_int()) return calculate_ints(operation, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) {
    if (a.kind() == Kind::kBigInt || b.kind() == Kind::kBigInt) return beyond_64_bits();
    return calculate_floats(operation, to_double(a), to_double(b));
  }
  if (operation == Operator::kAdd) return concatenate(runtime, a, b);
  if (operation == Operator::kMul) {
    if (can_repeat(a) && b.is_int()) return repeat(runtime, a, b.as_int());
    if (can_repeat(b) && a.is_int()) return repeat(runtime, b, a.as_int());
  }
  if ((a.is_items() || b.is_items()) && operation == Operator::kSub)
    return invalid("set operations on the views of a dict are not supported");
  return unsupported(operation, a, b);
}

Result<Value> negate(const Value& value) {
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_float()) return Value(-value.as_float());
  if (value.is_int()) return calculate_ints(Operator::kSub, 0, value.as_int());
  if (value.kind() == Kind::kBigInt) return beyond_64_bits();
  return invalid("bad operand type for unary -: '" + value.type_name() + "'");
}

Result<Value> positive(const Value& value) {
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_bool()) return Value(value.as_int());
  if (value.is_number()) return value;
  return invalid("bad operand type for unary +: '" + value.type_name() + "'");
}

Error undefined_error(const Value& value) { return invalid(value.as_undefined().message()); }
Error beyond_64_bits() { return invalid("integers beyond 64 bits are not computed with"); }

}  // namespace glint::jinja
