// What Python's operators do to values. Errors read as Python's: "can only concatenate str (not
// "int") to str". All of it spends from the runtime's budget, because values can share parts: a
// list of two equal lists of two equal lists ... is small in memory and without end to compare or
// print.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/object.h"
#include "text/jinja/value.h"

namespace glint::jinja {

enum class Operator { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
enum class Comparison { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

// compare.cc
bool truthy(const Value& value);
Result<bool> equals(Runtime& runtime, const Value& a, const Value& b);
Result<bool> less(Runtime& runtime, const Value& a, const Value& b);
Result<bool> compare(Runtime& runtime, Comparison operation, const Value& a, const Value& b);
Result<bool> contains(Runtime& runtime, const Value& container, const Value& item);
// The text that stands for a dict key (see Dict); fails for what Python cannot hash.
Result<std::string> key_text(Runtime& runtime, const Value& key);

// arithmetic.cc
Result<Value> calculate(Runtime& runtime, Operator operation, const Value& a, const Value& b);
Result<Value> negate(const Value& value);
Result<Value> positive(const Value& value);
// An int or float as a double; nothing for other kinds.
std::optional<double> to_double(const Value& value);

// printing.cc
Result<std::string> to_text(Runtime& runtime, const Value& value);  // str(value)
Result<std::string> to_repr(Runtime& runtime, const Value& value);  // repr(value)
std::string string_repr(std::string_view text);
void append_escaped(std::string& out, char32_t c);  // \xe9, \u20ac, \U0001f600
// html.escape as markupsafe does it; markup stays.
Result<Value> escape(Runtime& runtime, const Value& value);

// sequence.cc
Result<Int> length(Runtime& runtime, const Value& value);  // len(value)
bool is_iterable(const Value& value);
Result<std::shared_ptr<Iterator>> iterate(Runtime& runtime, const Value& value);  // iter(value)
Result<std::vector<Value>> to_vector(Runtime& runtime, const Value& value);       // list(value)
Result<std::shared_ptr<Iterator>> reversed(Runtime& runtime, const Value& value);
// value[start:stop:step]; absent bounds are None.
Result<Value> slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
                    const Value& step);
// Sorts with Python's `<`, stably. `keys` are compared in place of `items`.
Status sort_by_keys(Runtime& runtime, std::vector<Value>& items, const std::vector<Value>& keys,
                    bool reverse);
// The Python index `index` of a sequence of `length` items (negative: from the end), or nothing if
// out of range.
std::optional<std::size_t> wrap_index(Int index, std::size_t length);

// What is said of an undefined value that is used, and of integers that Python alone computes with.
Error undefined_error(const Value& value);
Error beyond_64_bits();

}  // namespace glint::jinja
