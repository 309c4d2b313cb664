// The arguments of a tool call come as text; their function's JSON schema says what they are. This
// follows vLLM: of the types that the schema allows, the first that the text can be, in the order
// null, integer, number, boolean, object, array, string. What the schema does not describe is a
// string, and so is what it calls nothing else. Before all types come the values that it lists.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "base/json.h"

namespace glint {

// Types as a set of bits.
enum SchemaType : unsigned {
  kNullType = 1,
  kIntegerType = 2,
  kNumberType = 4,
  kBooleanType = 8,
  kObjectType = 16,
  kArrayType = 32,
  kStringType = 64,
  kUnknownType = 128,  // the schema names a type that no one knows
};

// How an argument of this value is written: a text as it is, all else as Python's JSON.
std::string argument_text(const Json& value);

// The types of one function's arguments. Remembers what it looked up: one per thread.
class ToolTyping {
 public:
  // The JSON schema of the arguments, or null. It must outlive this.
  explicit ToolTyping(const Json& parameters) : root_(parameters) {}

  // The schema of argument `name`, or null if there is none.
  const Json* argument(std::string_view name) { return property(root_, name); }
  // The schema of all arguments that have none of their own, or null.
  const Json* other_arguments() { return properties(root_).others; }

  // The types that `schema` allows: `type`, those of `enum` and `const`, and of all alternatives.
  // Never empty: without any of them, the type that has `properties` or `items`, else a string.
  unsigned types(const Json* schema);

  // Whether the argument is its text, whatever that is.
  bool is_text(const Json* schema) { return types(schema) == kStringType; }

  // Whether the argument is JSON and no text, so that in its strings markers are text.
  bool is_json(const Json* schema) { return !(types(schema) & (kStringType | kUnknownType)); }

  // The value of an argument whose text is `text`.
  Json value(std::string_view text, const Json* schema);

 private:
  struct Properties {
    std::unordered_map<std::string_view, const Json*> own = {};
    const Json* others = nullptr;
  };
  struct Visit;

  const Json* resolve(const Json* schema) const;
  unsigned collect(const Json* schema, Visit& visit) const;
  void gather(const Json* schema, Visit& visit, Properties& out) const;
  const Properties& properties(const Json& schema);
  const Json* property(const Json& schema, std::string_view name);
  void coerce(Json& value, const Json* schema);

  const Json& root_;
  std::unordered_map<const Json*, unsigned> types_;
  std::unordered_map<const Json*, Properties> properties_;
};

}  // namespace glint
