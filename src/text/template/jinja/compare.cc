// Python's ==, <, in, truth and sorting.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "text/template/jinja/characters.h"
#include "text/template/jinja/operations.h"

namespace glint::jinja {
namespace {

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

// a <=> b of two numbers within 64 bits. Nothing if one is NaN.
std::optional<int> compare_numbers(const Value& a, const Value& b) {
  if (a.is_int() && b.is_int()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  if (a.is_int() && b.is_float()) return compare_int_float(a.as_int(), b.as_float());
  if (a.is_float() && b.is_int()) {
    const std::optional<int> opposite = compare_numbers(b, a);
    return opposite ? std::optional<int>(-*opposite) : opposite;
  }
  if (std::isnan(a.as_float()) || std::isnan(b.as_float())) return {};
  return a.as_float() < b.as_float() ? -1 : a.as_float() > b.as_float();
}

Status spend_comparison(Runtime& runtime, std::string_view a, std::string_view b) {
  return runtime.budget.spend_steps(std::min(a.size(), b.size()) / 64);
}

bool is_big(const Value& value) { return value.kind() == Kind::kBigInt; }

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

Result<bool> equal_items(Runtime& runtime, const Value& a, const Value& b) {
  if (a.same_as(b)) return true;
  const Items::Type type = a.as_items().type;
  if (type != b.as_items().type || type > Items::kRange || a.items().size() != b.items().size())
    return false;
  for (std::size_t i = 0; i < a.items().size(); ++i) {
    if (a.items()[i].same_as(b.items()[i])) continue;
    GLINT_TRY(const bool same, equals(runtime, a.items()[i], b.items()[i]));
    if (!same) return false;
  }
  return true;
}

// a < b, or with `or_equal` a <= b, for numbers and for texts.
Result<bool> ordered(Runtime& runtime, const Value& a, const Value& b, bool or_equal,
                     const char* sign) {
  GLINT_TRY_STATUS(runtime.budget.spend_steps(1));
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  if (a.is_number() && b.is_number()) {
    if (is_big(a) || is_big(b)) return beyond_64_bits();
    const std::optional<int> order = compare_numbers(a, b);
    return order && (*order < 0 || (or_equal && *order == 0));
  }
  if (a.is_string() && b.is_string()) {
    GLINT_TRY_STATUS(spend_comparison(runtime, a.text(), b.text()));
    // Bytes of UTF-8 are in the order of their code points.
    const int order = a.text().compare(b.text());
    return order < 0 || (or_equal && order == 0);
  }
  return invalid(str("'", sign, "' not supported between instances of '", a.type_name(), "' and '",
                     b.type_name(), "'"));
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
    case Kind::kFloat:
      return value.as_float() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kItems:  // a generator is true, whatever it would give
      return !value.items().empty() || value.as_items().type == Items::kGenerator;
    case Kind::kDict:
      return value.as_dict().size() > 0;
    case Kind::kBigInt:
    case Kind::kObject:
      return true;
  }
  return false;
}

Result<bool> equals(Runtime& runtime, const Value& a, const Value& b) {
  GLINT_TRY_STATUS(runtime.budget.spend_steps(1));
  if (a.is_number() && b.is_number()) {
    if (is_big(a) && is_big(b)) return a.big_digits() == b.big_digits();
    if (is_big(a) || is_big(b)) return false;
    return compare_numbers(a, b) == 0;
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kString:
      GLINT_TRY_STATUS(spend_comparison(runtime, a.text(), b.text()));
      return a.text() == b.text();
    case Kind::kItems:
      return equal_items(runtime, a, b);
    case Kind::kDict:
      return equal_dicts(runtime, a.as_dict(), b.as_dict());
    case Kind::kObject:
      return a.same_as(b);
    default:
      return true;  // None; and undefined values are all equal
  }
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
    GLINT_TRY_STATUS(require_hashable(runtime, item));
    const Result<std::string> key = key_text(item);
    return key.ok() && container.as_dict().find(key.value()) != nullptr;
  }
  if (!is_iterable(container)) {
    return invalid(str("argument of type '", container.type_name(), "' is not iterable"));
  }
  GLINT_TRY(const std::vector<Value> values, to_vector(runtime, container));
  for (const Value& value : values) {
    if (value.same_as(item)) return true;
    GLINT_TRY(const bool same, equals(runtime, value, item));
    if (same) return true;
  }
  return false;
}

Status sort_by_keys(Runtime& runtime, std::vector<Value>& items, const std::vector<Value>& keys,
                    bool reverse) {
  const bool texts = !keys.empty() && keys[0].is_string();
  for (const Value& key : keys) {
    if (key.is_float() && std::isnan(key.as_float()))
      return invalid("NaN has no place in an order");
    if (texts ? key.is_string() : key.is_int() || key.is_float()) continue;
    return invalid(str("'<' not supported between instances of '", key.type_name(), "' and '",
                       keys[0].type_name(), "'"));
  }
  GLINT_TRY_STATUS(runtime.budget.spend_steps(16 * items.size()));
  std::vector<std::size_t> places(items.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::stable_sort(places.begin(), places.end(), [&](std::size_t i, std::size_t j) {
    const Value &a = keys[reverse ? j : i], &b = keys[reverse ? i : j];
    return texts ? a.text() < b.text() : *compare_numbers(a, b) < 0;
  });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const std::size_t place : places) sorted.push_back(items[place]);
  items = std::move(sorted);
  return Ok{};
}

Status require_hashable(Runtime& runtime, const Value& value) {
  GLINT_TRY_STATUS(runtime.budget.spend_steps(1));
  if (value.is_list() || value.is_dict())
    return invalid("unhashable type: '" + value.type_name() + "'");
  if (!value.is_tuple()) return Ok{};
  for (const Value& item : value.items()) GLINT_TRY_STATUS(require_hashable(runtime, item));
  return Ok{};
}

Result<std::string> key_text(const Value& key) {
  if (key.is_string()) return key.text();
  if (key.is_int()) return str("\xff", key.as_int());  // no text holds this byte
  return invalid("keys of a dict are not supported but texts and integers, not " + key.type_name());
}

}  // namespace glint::jinja
