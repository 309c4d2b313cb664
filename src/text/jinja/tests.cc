// {{ x is odd }}: jinja2's tests.
#include "text/jinja/builtins.h"
#include "text/jinja/characters.h"
#include "text/jinja/functions.h"
#include "text/jinja/operations.h"

namespace glint::jinja {
namespace {

// Tests of the value alone that cannot fail.
template <bool (*kAsk)(const Value&)>
Result<bool> ask(Runtime&, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("test", arguments, {}));
  return kAsk(input);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is_bool(); }
bool is_true(const Value& value) { return value.is_bool() && value.as_bool(); }
bool is_false(const Value& value) { return value.is_bool() && !value.as_bool(); }
bool is_integer(const Value& value) {
  return value.kind() == Kind::kInt || value.kind() == Kind::kBigInt;
}
bool is_float(const Value& value) { return value.is_float(); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.is_string(); }
bool is_mapping(const Value& value) { return value.is_dict(); }
bool is_escaped(const Value& value) { return value.is_markup(); }

// Python's callable(): an undefined value is, because it can be tried and fails then.
bool is_callable(const Value& value) {
  return value.is_undefined() || (value.is_object() && value.object()->callable());
}

// What has a length and can be indexed.
bool is_sequence(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_sequence() || value.is_dict() ||
         value.object_as<Range>();
}

Result<bool> has_remainder(Runtime& runtime, const Value& value, const Value& divisor,
                           Int remainder) {
  GLINT_TRY(const Value rest, calculate(runtime, Operator::kMod, value, divisor));
  return equals(runtime, rest, Value(remainder));
}

template <Int kRemainder>
Result<bool> parity(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("test", arguments, {}));
  return has_remainder(runtime, input, Value(2), kRemainder);
}

Result<bool> divisible_by(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("divisibleby", arguments, {"num"}));
  return has_remainder(runtime, input, *bound[0], 0);
}

template <bool (*kAsk)(std::string_view)>
Result<bool> has_case(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("test", arguments, {}));
  GLINT_TRY(const std::string text, to_text(runtime, input));
  GLINT_TRY_STATUS(runtime.budget.spend_reading(text.size()));
  return kAsk(text);
}

template <Comparison kComparison>
Result<bool> compares(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("test", arguments, {"other"}));
  return compare(runtime, kComparison, input, *bound[0]);
}

Result<bool> same_as(Runtime&, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("sameas", arguments, {"other"}));
  return input.same_as(*bound[0]);
}

Result<bool> iterable(Runtime&, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("iterable", arguments, {}));
  return is_iterable(input);
}

// Names are looked up in a dict, so what Python cannot hash fails.
Result<bool> is_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("filter", arguments, {}));
  GLINT_TRY_STATUS(key_text(runtime, input));
  return input.is_string() && find_filter(input.text()) != nullptr;
}

Result<bool> is_test(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY_STATUS(Bound::bind("test", arguments, {}));
  GLINT_TRY_STATUS(key_text(runtime, input));
  return input.is_string() && find_test(input.text()) != nullptr;
}

}  // namespace

Test find_test(std::string_view name) {
  static constexpr Named<Test> kTests[] = {
      {"!=", compares<Comparison::kNe>},
      {"<", compares<Comparison::kLt>},
      {"<=", compares<Comparison::kLe>},
      {"==", compares<Comparison::kEq>},
      {">", compares<Comparison::kGt>},
      {">=", compares<Comparison::kGe>},
      {"boolean", ask<is_boolean>},
      {"callable", ask<is_callable>},
      {"defined", ask<is_defined>},
      {"divisibleby", divisible_by},
      {"eq", compares<Comparison::kEq>},
      {"equalto", compares<Comparison::kEq>},
      {"escaped", ask<is_escaped>},
      {"even", parity<0>},
      {"false", ask<is_false>},
      {"filter", is_filter},
      {"float", ask<is_float>},
      {"ge", compares<Comparison::kGe>},
      {"greaterthan", compares<Comparison::kGt>},
      {"gt", compares<Comparison::kGt>},
      {"in", compares<Comparison::kIn>},
      {"integer", ask<is_integer>},
      {"iterable", iterable},
      {"le", compares<Comparison::kLe>},
      {"lessthan", compares<Comparison::kLt>},
      {"lower", has_case<is_lower>},
      {"lt", compares<Comparison::kLt>},
      {"mapping", ask<is_mapping>},
      {"ne", compares<Comparison::kNe>},
      {"none", ask<is_none>},
      {"number", ask<is_number>},
      {"odd", parity<1>},
      {"sameas", same_as},
      {"sequence", ask<is_sequence>},
      {"string", ask<is_string>},
      {"test", is_test},
      {"true", ask<is_true>},
      {"undefined", ask<is_undefined>},
      {"upper", has_case<is_upper>},
  };
  return find_named(kTests, name);
}

}  // namespace glint::jinja
