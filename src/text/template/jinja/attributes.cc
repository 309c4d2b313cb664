// value.name, value[key] and value(...), in jinja2's immutable sandbox: a method that would change
// a list or dict is undefined.
#include "base/contains.h"
#include "base/str.h"
#include "text/template/jinja/builtins.h"
#include "text/template/jinja/operations.h"

namespace glint::jinja {
namespace {

bool changes_it(const Value& value, std::string_view name) {
  static constexpr std::string_view kOfLists[] = {"append", "clear",  "extend",  "insert",
                                                  "pop",    "remove", "reverse", "sort"};
  static constexpr std::string_view kOfDicts[] = {"clear", "pop", "popitem", "setdefault",
                                                  "update"};
  return value.is_list() ? glint::contains(kOfLists, name)
                         : value.is_dict() && glint::contains(kOfDicts, name);
}

// jinja2's object_type_repr: "dict object", "None".
std::string description(const Value& value) {
  return value.is_none() ? "None" : value.type_name() + " object";
}

Value missing(const Value& value, std::string_view name) {
  return Value(Undefined{.owner = description(value), .name = std::string(name)});
}

// The attribute that Python's getattr finds.
Result<std::optional<Value>> find_attribute(Runtime& runtime, const Value& value,
                                            std::string_view name) {
  if (value.is_object()) return value.object()->attribute(name);
  if (changes_it(value, name)) {
    return Value(Undefined{.hint = str("access to attribute '", name, "' of '", value.type_name(),
                                       "' object is unsafe.")});
  }
  if (const std::optional<Error> error = unsupported_method(value, name)) return *error;
  const Method method = find_method(value, name);
  if (!method) return std::nullopt;
  // Markup escapes the arguments of most of its methods.
  if (value.is_markup())
    return invalid("methods of a text that the filter 'safe' made are not supported");
  GLINT_TRY(Value bound, runtime.make_function(
                             [value, method](Runtime& runtime, const Arguments& arguments) {
                               return method(runtime, value, arguments);
                             },
                             value.depth()));
  return bound;
}

// The item that Python's value[key] finds; nothing where it raises TypeError or LookupError.
Result<std::optional<Value>> find_item(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is_dict()) {
    const Result<std::string> text = key_text(key);
    const Value* found = text.ok() ? value.as_dict().find(text.value()) : nullptr;
    return found ? std::optional<Value>(*found) : std::nullopt;
  }
  return key.is_int() ? find_index(runtime, value, key.as_int()) : std::nullopt;
}

}  // namespace

Result<Value> get_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (value.is_undefined()) return undefined_error(value);
  GLINT_TRY(const std::optional<Value> attribute, find_attribute(runtime, value, name));
  if (attribute) return *attribute;
  if (value.is_dict()) {
    if (const Value* item = value.as_dict().find(name)) return *item;
  }
  return missing(value, name);
}

Result<Value> get_item(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is_undefined()) return undefined_error(value);
  GLINT_TRY(const std::optional<Value> item, find_item(runtime, value, key));
  if (item) return *item;
  if (key.is_string()) {
    GLINT_TRY(const std::optional<Value> attribute, find_attribute(runtime, value, key.text()));
    return attribute ? *attribute : missing(value, key.text());
  }
  GLINT_TRY(const std::string printed, to_repr(runtime, key));
  return Value(Undefined{.hint = str(description(value), " has no element ", printed)});
}

Result<Value> call(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_object()) return value.object()->call(runtime, arguments);
  return invalid("'" + value.type_name() + "' object is not callable");
}

}  // namespace glint::jinja
