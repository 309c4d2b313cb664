// Python's ==, <, in and truth, and what is equal as a dict's key.
#include <cmath>

#include "base/json.h"
#include "text/jinja/characters.h"
#include "text/jinja/functions.h"
#include "text/jinja/operations.h"

namespace glint::jinja {
namespace {

int sign(const std::string& digits) { return digits[0] == '-' ? -1 : 1; }

// a <=> b for the digits of two integers outside int64, of any signs.
int compare_digits(const std::string& a, const std::string& b) {
  if (sign(a) != sign(b)) return sign(a);
  if (a.size() != b.size()) return a.size() < b.size() ? -sign(a) : sign(a);
  const int order = a.compare(b);
  return order < 0 ? -sign(a) : order > 0 ? sign(a) : 0;
}

// Exact, unlike a comparison of both as doubles. Nothing if `b` is NaN.
std::optional<int> compare_int_float(Int a, double b) {
  if (std::isnan(b)) return {};
  if (b >= 0x1p63) return -1;
  if (b < -0x1p63) return 1;
  const Int whole = static_cast<Int>(b);
  if (a != whole) return a < whole ? -1 : 1;
  const double rest = b - static_cast<double>(whole);
  return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

// a <=> b of two numbers. Nothing if one is NaN.
std::optional<int> compare_numbers(const Value& a, const Value& b) {
  if (a.is_int() && b.is_int()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  if (a.is_int() && b.is_float()) return compare_int_float(a.as_int(), b.as_float());
  if (a.is_float() && b.is_float()) {
    if (std::isnan(a.as_float()) || std::isnan(b.as_float())) return {};
    return a.as_float() < b.as_float() ? -1 : a.as_float() > b.as_float();
  }
  if (a.kind() == Kind::kBigInt) {
    if (b.is_int()) return sign(a.big_digits());
    if (b.kind() == Kind::kBigInt) return compare_digits(a.big_digits(), b.big_digits());
    return compare_numbers(Value(*to_double(a)), b);
  }
  const std::optional<int> opposite = compare_numbers(b, a);
  return opposite ? std::optional<int>(-*opposite) : opposite;
}

Result<bool> equal_dicts(Runtime& runtime, const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [text, place] : a.index()) {
    const Value* other = b.find(text);
    if (!other) return false;
    GLINT_TRY(const bool same, equals(runtime, a.entries()[place].value, *other));
    if (!same) return false;
  }
  return true;
}

Result<bool> equal_items(Runtime& runtime, const std::vector<Value>& a,
                         const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].same_as(b[i])) continue;
    GLINT_TRY(const bool same, equals(runtime, a[i], b[i]));
    if (!same) return false;
  }
  return true;
}

Error no_order(const Value& a, const Value& b, const char* sign) {
  return invalid(str("'", sign, "' not supported between instances of '", a.type_name(), "' and '",
                     b.type_name(), "'"));
}

// a < b, or with `or_equal` a <= b.
Result<bool> ordered(Runtime& runtime, const Value& a, const Value& b, bool or_equal,
                     const char* sign) {
  GLINT_TRY_STATUS(runtime.budget.spend_steps(1));
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  if (a.is_number() && b.is_number()) {
    const std::optional<int> order = compare_numbers(a, b);
    return order && (*order < 0 || (or_equal && *order == 0));
  }
  if (a.is_string() && b.is_string()) {
    // Bytes of UTF-8 are in the order of their code points.
    const int order = a.text().compare(b.text());
    return order < 0 || (or_equal && order == 0);
  }
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    const std::size_t common = std::min(a.items().size(), b.items().size());
    for (std::size_t i = 0; i < common; ++i) {
      if (a.items()[i].same_as(b.items()[i])) continue;
      GLINT_TRY(const bool same, equals(runtime, a.items()[i], b.items()[i]));
      if (!same) return ordered(runtime, a.items()[i], b.items()[i], or_equal, sign);
    }
    return a.items().size() < b.items().size() ||
           (or_equal && a.items().size() == b.items().size());
  }
  return no_order(a, b, sign);
}

}  // namespace

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kBigInt:
      return true;
    case Kind::kFloat:
      return value.as_float() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !value.items().empty();
    case Kind::kDict:
      return value.as_dict().size() > 0;
    case Kind::kObject:
      return value.object()->truthy();
  }
  return false;
}

Result<bool> equals(Runtime& runtime, const Value& a, const Value& b) {
  GLINT_TRY_STATUS(runtime.budget.spend_steps(1));
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kString:
      return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple:
      return equal_items(runtime, a.items(), b.items());
    case Kind::kDict:
      return equal_dicts(runtime, a.as_dict(), b.as_dict());
    case Kind::kObject: {
      const Range* range_a = a.object_as<Range>();
      const Range* range_b = b.object_as<Range>();
      return range_a && range_b ? *range_a == *range_b : a.same_as(b);
    }
    default:
      return true;  // None; and undefined values are all equal
  }
}

Result<bool> less(Runtime& runtime, const Value& a, const Value& b) {
  return ordered(runtime, a, b, false, "<");
}

Result<bool> compare(Runtime& runtime, Comparison operation, const Value& a, const Value& b) {
  switch (operation) {
    case Comparison::kEq:
      return equals(runtime, a, b);
    case Comparison::kNe: {
      GLINT_TRY(const bool same, equals(runtime, a, b));
      return !same;
    }
    case Comparison::kLt:
      return ordered(runtime, a, b, false, "<");
    case Comparison::kLe:
      return ordered(runtime, a, b, true, "<=");
    case Comparison::kGt:
      return ordered(runtime, b, a, false, ">");
    case Comparison::kGe:
      return ordered(runtime, b, a, true, ">=");
    case Comparison::kIn:
      return contains(runtime, b, a);
    case Comparison::kNotIn: {
      GLINT_TRY(const bool found, contains(runtime, b, a));
      return !found;
    }
  }
  return false;
}

Result<bool> contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      return invalid(str("'in <string>' requires string as left operand, not ", item.type_name()));
    }
    GLINT_TRY_STATUS(runtime.budget.spend_steps(container.text().size() / 64));
    return find_text(container.text(), item.text()) != std::string::npos;
  }
  if (container.is_dict()) {
    GLINT_TRY(const std::string key, key_text(runtime, item));
    return container.as_dict().find(key) != nullptr;
  }
  if (const Range* range = container.object_as<Range>(); range && item.is_int()) {
    return range->contains(item.as_int());
  }
  if (!is_iterable(container)) {
    return invalid(str("argument of type '", container.type_name(), "' is not iterable"));
  }
  GLINT_TRY(const std::shared_ptr<Iterator> iterator, iterate(runtime, container));
  for (;;) {
    GLINT_TRY(const std::optional<Value> next, iterator->next());
    if (!next) return false;
    if (next->same_as(item)) return true;
    GLINT_TRY(const bool same, equals(runtime, *next, item));
    if (same) return true;
  }
}

Result<std::string> key_text(Runtime& runtime, const Value& key) {
  switch (key.kind()) {
    case Kind::kString:
      return key.text();
    case Kind::kUndefined:
      return std::string("\xff?");
    case Kind::kNone:
      return std::string("\xffN");
    case Kind::kBool:
    case Kind::kInt:
      return str("\xff", key.as_int());
    case Kind::kBigInt:
      return "\xff" + key.big_digits();
    case Kind::kFloat: {
      const double number = key.as_float();
      if (number == std::floor(number) && number >= -0x1p63 && number < 0x1p63) {
        return str("\xff", static_cast<Int>(number));
      }
      return "\xff" + format_double(number);
    }
    case Kind::kTuple: {
      std::string text = "\xff(";
      for (const Value& item : key.items()) {
        GLINT_TRY_STATUS(runtime.budget.spend_steps(1));
        GLINT_TRY(const std::string part, key_text(runtime, item));
        GLINT_TRY_STATUS(runtime.budget.spend_bytes(part.size()));
        text += str(part.size(), ":", part);
      }
      return text;
    }
    case Kind::kObject:
      return str("\xff@", static_cast<const void*>(key.object().get()));
    case Kind::kList:
    case Kind::kDict:
      break;
  }
  return invalid("unhashable type: '" + key.type_name() + "'");
}

}  // namespace glint::jinja
