// The filters and tests by name, and what values have as attributes.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/object.h"

namespace glint::jinja {

// A function that templates know by its name, in a table of such; null if none has the name.
template <class F>
struct Named {
  std::string_view name;
  F function;
};
template <class F, std::size_t N>
F find_named(const Named<F> (&table)[N], std::string_view name) {
  for (const Named<F>& entry : table) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

// {{ input | name(arguments) }}. Null if there is no such filter.
using Filter = Result<Value> (*)(Runtime& runtime, const Value& input, const Arguments& arguments);
Filter find_filter(std::string_view name);

// {{ input is name(arguments) }}. Null if there is no such test.
using Test = Result<bool> (*)(Runtime& runtime, const Value& input, const Arguments& arguments);
Test find_test(std::string_view name);

// value.name: the attribute if there is one, else the item, else undefined.
Result<Value> get_attribute(Runtime& runtime, const Value& value, std::string_view name);

// value[key]: the item if there is one, else the attribute, else undefined.
Result<Value> get_item(Runtime& runtime, const Value& value, const Value& key);

// value(arguments).
Result<Value> call(Runtime& runtime, const Value& value, const Arguments& arguments);

// json.dumps with transformers' defaults (Python's, but for ensure_ascii=False).
struct JsonOptions {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // what one level is indented by; empty breaks lines too
  std::string item_separator = ", ", key_separator = ": ";
};
Result<std::string> to_json(Runtime& runtime, const Value& value, const JsonOptions& options);

}  // namespace glint::jinja
