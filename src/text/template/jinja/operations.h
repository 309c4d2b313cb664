// Python's operators on values. Errors read as Python's: "can only concatenate str (not "int") to
// str". All of it spends from the runtime's budget, because values can share parts: a list of two
// equal lists of two equal lists ... is small in memory and without end to compare or print.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/jinja/runtime.h"
#include "text/template/jinja/value.h"

namespace glint::jinja {

enum class Operator { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod };
enum class Comparison { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

// compare.cc
bool truthy(const Value& value);
Result<bool> equals(Runtime& runtime, const Value& a, const Value& b);
Result<bool> compare(Runtime& runtime, Comparison operation, const Value& a, const Value& b);
Result<bool> contains(Runtime& runtime, const Value& container, const Value& item);
// Sorts `items` by `keys` with Python's `<`, stably: all numbers, or all texts.
Status sort_by_keys(Runtime& runtime, std::vector<Value>& items, const std::vector<Value>& keys,
                    bool reverse);
// Fails for lists and dicts, and tuples that hold them, which can be no keys.
Status require_hashable(Runtime& runtime, const Value& value);
// The text that stands for a dict's key; fails for what is neither text nor integer.
Result<std::string> key_text(const Value& key);

// arithmetic.cc
Result<Value> calculate(Runtime& runtime, Operator operation, const Value& a, const Value& b);
Result<Value> negate(const Value& value);
Result<Value> positive(const Value& value);

// format.cc: text % values, where values are a tuple or one value.
Result<Value> format_percent(Runtime& runtime, const Value& text, const Value& values);

// printing.cc
Result<std::string> to_text(Runtime& runtime, const Value& value);  // str(value)
Result<std::string> to_repr(Runtime& runtime, const Value& value);  // repr(value)
std::string string_repr(std::string_view text);

// json.cc: json.dumps with transformers' defaults (Python's, but for ensure_ascii=False).
struct JsonOptions {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent = {};  // of one level; an empty one breaks lines too
  std::string item_separator = ", ", key_separator = ": ";
};
Result<std::string> to_json(Runtime& runtime, const Value& value, const JsonOptions& options);

// sequence.cc
Result<Int> length(const Value& value);  // len(value)
bool is_iterable(const Value& value);
Result<std::vector<Value>> to_vector(Runtime& runtime, const Value& value);  // list(value)
// value[index] of a row or text; nothing if there is no such index.
Result<std::optional<Value>> find_index(Runtime& runtime, const Value& value, Int index);
// value[start:stop:step]; absent bounds are None.
Result<Value> slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
                    const Value& step);

// The errors of an undefined value that is used, and of integers that Python alone computes with.
Error undefined_error(const Value& value);
Error beyond_64_bits();

}  // namespace glint::jinja
