// The filters, tests, methods and functions that templates know by name, and the attributes of
// values. A name that is not here is refused with a sentence that says so.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/template/jinja/runtime.h"

namespace glint::jinja {

// A function by its name, in a table of such; null if none has the name.
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
template <class F, std::size_t N>
std::string join_names(const Named<F> (&table)[N]) {
  std::string names;
  for (const Named<F>& entry : table)
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

// Names that jinja2 has and glint has not. A template with one is refused when it is read, even
// where it may never be run, while a name that jinja2 has not either is an error once it is run, as
// there.
bool lacks_filter(std::string_view name);
bool lacks_test(std::string_view name);
bool lacks_method(std::string_view name);
bool lacks_function(std::string_view name);

// {{ input | name(arguments) }}. Null if there is no such filter.
using Filter = Result<Value> (*)(Runtime& runtime, const Value& input, const Arguments& arguments);
Filter find_filter(std::string_view name);
Error unsupported_filter(std::string_view name);

// {{ input is name(arguments) }}. Null if there is no such test.
using Test = Result<bool> (*)(Runtime& runtime, const Value& input, const Arguments& arguments);
Test find_test(std::string_view name);
Error unsupported_test(std::string_view name);

// {{ self.name(arguments) }}, for texts, lists, tuples and dicts. Null if there is no such method.
using Method = Result<Value> (*)(Runtime& runtime, const Value& self, const Arguments& arguments);
Method find_method(const Value& self, std::string_view name);
// The error if Python has this method.
std::optional<Error> unsupported_method(const Value& self, std::string_view name);

// A method of texts that is also a filter.
Method find_string_method(std::string_view name);

// joiner, namespace, raise_exception, range, strftime_now; nothing for another name, an error for
// another function of jinja2.
Result<std::optional<Value>> global_function(Runtime& runtime, std::string_view name);
Error unsupported_function(std::string_view name);

// value.name: the attribute if there is one, else the item, else undefined.
Result<Value> get_attribute(Runtime& runtime, const Value& value, std::string_view name);

// value[key]: the item if there is one, else the attribute, else undefined.
Result<Value> get_item(Runtime& runtime, const Value& value, const Value& key);

// value(arguments).
Result<Value> call(Runtime& runtime, const Value& value, const Arguments& arguments);

// sep.join(items): items must be texts, or are made texts if `convert`.
Result<std::string> join_texts(Runtime& runtime, std::string_view separator, const Value& items,
                               bool convert);

}  // namespace glint::jinja
