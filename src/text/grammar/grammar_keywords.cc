#include "text/grammar/grammar_keywords.h"

#include <algorithm>

#include "base/contains.h"
#include "base/json_pointer.h"
#include "base/str.h"
#include "text/answer/tool_typing.h"

namespace glint {

const Keywords& unsupported_keywords() {
  static const Keywords names = {"not",
                                 "if",
                                 "then",
                                 "else",
                                 "dependentRequired",
                                 "contains",
                                 "minContains",
                                 "maxContains",
                                 "dependentSchemas",
                                 "$dynamicRef",
                                 "dependencies",
                                 "$recursiveRef",
                                 "unevaluatedItems",
                                 "extends",
                                 "disallow",
                                 "divisibleBy"};
  return names;
}

const Keywords& whole_keywords() {
  static const Keywords names = {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"};
  return names;
}

const std::vector<TypeKeywords>& type_keywords() {
  static const std::vector<TypeKeywords> keywords = {
      {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
      {"string", {"minLength", "maxLength", "pattern"}},
      {"array", {"items", "prefixItems", "additionalItems", "minItems", "maxItems"}},
      {"object",
       {"properties", "required", "additionalProperties", "patternProperties", "propertyNames",
        "minProperties", "maxProperties", "unevaluatedProperties"}}};
  return keywords;
}

bool restricts(std::string_view keyword) {
  return contains(unsupported_keywords(), keyword) || contains(whole_keywords(), keyword) ||
         std::ranges::any_of(type_keywords(),
                             [&](const TypeKeywords& one) { return contains(one.names, keyword); });
}

bool is_type(const Json& schema, std::string_view type) {
  const Json* found = schema.find("type");
  if (!found) return false;
  if (found->is_string()) return found->as_string() == type;
  if (!found->is_array()) return false;
  for (const Json& name : found->as_array()) {
    if (name.is_string() && name.as_string() == type) return true;
  }
  return false;
}

bool type_fits(const Json& root, const Json& type, const Json& option) {
  const Json only_type(Json::Object{{"type", type}});
  unsigned allowed = ToolTyping(only_type).types(&only_type);
  if (allowed & kNumberType) allowed |= kIntegerType;
  return (ToolTyping(root).types(&option) & ~allowed) == 0;
}

const Json& target_of(const Json& root, const Json& schema, std::string& path) {
  const Json* at = &schema;
  for (int i = 0; i < kMaxSchemaDepth; ++i) {
    const Json* reference = at->find("$ref");
    if (!reference || !reference->is_string() || !reference->as_string().starts_with('#')) break;
    const Json* next = follow_pointer(root, reference->as_string().substr(1));
    if (!next) break;
    at = next;
    path = reference->as_string().substr(1);
  }
  return *at;
}

void drop(Json& schema, std::initializer_list<std::string_view> keywords) {
  std::erase_if(schema.as_object(),
                [&](const Json::Member& one) { return contains(keywords, one.first); });
}

Error schema_error(const std::string& path, const std::string& problem) {
  return invalid(path.empty() ? problem : str("at ", quoted(path), ": ", problem));
}

}  // namespace glint
