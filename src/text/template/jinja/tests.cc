// {{ x is string }}: jinja2's tests.
#include "base/contains.h"
#include "base/str.h"
#include "text/template/jinja/builtins.h"
#include "text/template/jinja/operations.h"

namespace glint::jinja {
namespace {

// Tests of the value alone.
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

// A value that has a length and can be indexed.
bool is_sequence(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_dict() ||
         (value.is_items() && value.as_items().type <= Items::kRange);
}

template <Comparison kComparison>
Result<bool> compares(Runtime& runtime, const Value& input, const Arguments& arguments) {
  GLINT_TRY(const Bound bound, Bound::bind("test", arguments, {"other"}));
  return compare(runtime, kComparison, input, bound[0]);
}

constexpr Named<Test> kTests[] = {
    {"!=", compares<Comparison::kNe>}, {"<", compares<Comparison::kLt>},
    {"<=", compares<Comparison::kLe>}, {"==", compares<Comparison::kEq>},
    {">", compares<Comparison::kGt>},  {">=", compares<Comparison::kGe>},
    {"boolean", ask<is_boolean>},      {"defined", ask<is_defined>},
    {"eq", compares<Comparison::kEq>}, {"equalto", compares<Comparison::kEq>},
    {"false", ask<is_false>},          {"float", ask<is_float>},
    {"ge", compares<Comparison::kGe>}, {"gt", compares<Comparison::kGt>},
    {"in", compares<Comparison::kIn>}, {"integer", ask<is_integer>},
    {"iterable", ask<is_iterable>},    {"le", compares<Comparison::kLe>},
    {"lt", compares<Comparison::kLt>}, {"mapping", ask<is_mapping>},
    {"ne", compares<Comparison::kNe>}, {"none", ask<is_none>},
    {"number", ask<is_number>},        {"sequence", ask<is_sequence>},
    {"string", ask<is_string>},        {"true", ask<is_true>},
    {"undefined", ask<is_undefined>},
};

}  // namespace

Test find_test(std::string_view name) { return find_named(kTests, name); }

bool lacks_test(std::string_view name) {
  static constexpr std::string_view kNames =
      "callable divisibleby escaped even filter greaterthan lessthan lower odd sameas test upper";
  return glint::contains(glint::split(kNames, ' '), name);
}

Error unsupported_test(std::string_view name) {
  return invalid(str("the test '", name, "' is not supported; there are ", join_names(kTests)));
}

}  // namespace glint::jinja
