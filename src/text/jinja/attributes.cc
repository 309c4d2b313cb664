// value.name, value[key] and value(...), in jinja2's immutable sandbox: what would change a list or
// dict is undefined.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/characters.h"
#include "text/jinja/functions.h"
#include "text/jinja/methods.h"
#include "text/jinja/operations.h"

namespace glint::jinja {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool changes_it(const Value& value, std::string_view name) {
  if (value.is_list()) {
    return is_one_of(name,
                     {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
  }
  return value.is_dict() && is_one_of(name, {"clear", "pop", "popitem", "setdefault", "update"});
}

Value unsafe(const Value& value, std::string_view name) {
  return Value(Undefined{.hint = str("access to attribute '", name, "' of '", value.type_name(),
                                     "' object is unsafe.")});
}

// The attributes of Python's numbers that are no methods.
std::optional<Value> number_attribute(const Value& number, std::string_view name) {
  const Value whole = number.is_bool() ? Value(number.as_int()) : number;
  if (name == "real") return whole;
  if (name == "imag") return number.is_float() ? Value(0.0) : Value(0);
  if (number.is_float()) return {};
  if (name == "numerator") return whole;
  if (name == "denominator") return Value(1);
  return {};
}

Value missing(const Value& value, const Value& key, std::string_view printed_key) {
  if (key.is_string())
    return Value(Undefined{.owner = value.type_description(), .name = key.text()});
  return Value(Undefined{.hint = str(value.type_description(), " has no element ", printed_key)});
}

// What Python's getattr finds.
Result<std::optional<Value>> find_attribute(Runtime& runtime, const Value& value,
                                            std::string_view name) {
  if (value.is_object()) return value.object()->attribute(runtime, name, value);
  if (value.is_group() && (name == "grouper" || name == "list")) {
    return value.items()[name == "list"];
  }
  if (value.is_number()) {
    if (std::optional<Value> attribute = number_attribute(value, name)) return attribute;
  }
  if (changes_it(value, name)) return unsafe(value, name);
  const Method method = find_method(value, name);
  if (!method) return std::nullopt;
  GLINT_TRY(Value bound,
            runtime.make<Function>(value.depth(), std::string(name),
                                   [value, method](Runtime& runtime, const Arguments& arguments) {
                                     return method(runtime, value, arguments);
                                   }));
  return bound;
}

// What Python's value[key] finds; nothing where it raises TypeError or LookupError.
Result<std::optional<Value>> find_item(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is_dict()) {
    Result<std::string> text = key_text(runtime, key);
    if (!text.ok()) {
      const bool is_unhashable = text.error().code == ErrorCode::kInvalidArgument;
      return is_unhashable ? Result<std::optional<Value>>(std::nullopt)
                           : std::move(text).take_error();
    }
    const Value* found = value.as_dict().find(text.value());
    return found ? std::optional<Value>(*found) : std::nullopt;
  }
  if (value.is_object()) return value.object()->item(key);
  if (!key.is_int()) return std::nullopt;
  if (value.is_sequence()) {
    const std::optional<std::size_t> place = wrap_index(key.as_int(), value.items().size());
    return place ? std::optional<Value>(value.items()[*place]) : std::nullopt;
  }
  if (value.is_string()) {
    const Str& text = value.as_str();
    const std::optional<std::size_t> place = wrap_index(key.as_int(), text.length);
    if (!place) return std::nullopt;
    if (text.is_ascii()) return Value(std::string(1, text.bytes[*place]), text.markup);
    GLINT_TRY_STATUS(runtime.budget.spend_steps(text.bytes.size() / 64));
    const std::size_t begin = byte_offset(text.bytes, *place);
    const std::size_t size = byte_offset(std::string_view(text.bytes).substr(begin), 1);
    return Value(text.bytes.substr(begin, size), text.markup);
  }
  return std::nullopt;
}

}  // namespace

Result<Value> get_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (value.is_undefined()) return undefined_error(value);
  GLINT_TRY(const std::optional<Value> attribute, find_attribute(runtime, value, name));
  if (attribute) return *attribute;
  if (value.is_dict()) {
    if (const Value* item = value.as_dict().find(name)) return *item;
  }
  return missing(value, Value(name), "");
}

Result<Value> get_item(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is_undefined()) return undefined_error(value);
  GLINT_TRY(const std::optional<Value> item, find_item(runtime, value, key));
  if (item) return *item;
  if (key.is_string()) {
    GLINT_TRY(const std::optional<Value> attribute, find_attribute(runtime, value, key.text()));
    return attribute ? *attribute : missing(value, key, "");
  }
  GLINT_TRY(const std::string printed, to_repr(runtime, key));
  return missing(value, key, printed);
}

Result<Value> call(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_object()) return value.object()->call(runtime, arguments);
  return invalid("'" + value.type_name() + "' object is not callable");
}

}  // namespace glint::jinja
