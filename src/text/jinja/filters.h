// The filters, a source each for a kind of input; find_filter (builtins.h) is the way to them.
#pragma once

#include <string_view>

#include "text/jinja/builtins.h"
#include "text/jinja/functions.h"
#include "text/jinja/operations.h"

namespace glint::jinja {

// Each finds the filters of its source; null for other names.
Filter find_text_filter(std::string_view name);
Filter find_number_filter(std::string_view name);
Filter find_sequence_filter(std::string_view name);
Filter find_lazy_filter(std::string_view name);

// What `attribute="a.b.0"` of a filter means: item["a"]["b"][0].
class AttributePath {
 public:
  // `attribute` is a text, an int, or None for the item itself.
  static Result<AttributePath> parse(const Value& attribute);

  // With `otherwise`, each step that finds nothing gives it instead.
  Result<Value> get(Runtime& runtime, const Value& item, const Value* otherwise = nullptr) const;

 private:
  std::vector<Value> keys_;
};

// A text in lower case, anything else as it is: how filters compare unless case_sensitive.
Result<Value> ignore_case(Runtime& runtime, const Value& value);

// Pretty-printed as Python's pprint.pformat.
Result<std::string> pretty_print(Runtime& runtime, const Value& value);

}  // namespace glint::jinja
