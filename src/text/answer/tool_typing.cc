#include "text/answer/tool_typing.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_set>

#include "base/json_pointer.h"
#include "text/template/jinja/characters.h"
#include "text/template/jinja/python_number.h"

namespace glint {
namespace {

constexpr int kMaxReferences = 32;  // in a row
constexpr int kMaxDepth = 64;       // of alternatives in alternatives

struct TypeName {
  std::string_view name;
  SchemaType type;
};
constexpr TypeName kTypeNames[] = {
    {"null", kNullType},      {"integer", kIntegerType},  {"int", kIntegerType},
    {"int32", kIntegerType},  {"int64", kIntegerType},    {"uint", kIntegerType},
    {"uint32", kIntegerType}, {"uint64", kIntegerType},   {"long", kIntegerType},
    {"short", kIntegerType},  {"unsigned", kIntegerType}, {"number", kNumberType},
    {"float", kNumberType},   {"float32", kNumberType},   {"float64", kNumberType},
    {"double", kNumberType},  {"boolean", kBooleanType},  {"bool", kBooleanType},
    {"object", kObjectType},  {"dict", kObjectType},      {"array", kArrayType},
    {"arr", kArrayType},      {"list", kArrayType},       {"sequence", kArrayType},
    {"string", kStringType},  {"str", kStringType},       {"text", kStringType},
    {"varchar", kStringType}, {"char", kStringType},      {"enum", kStringType},
};

std::string stripped_lower(std::string_view text) { return jinja::to_lower(jinja::strip(text)); }

unsigned type_of_name(std::string_view name) {
  const std::string lower = stripped_lower(name);
  for (const TypeName& entry : kTypeNames) {
    if (entry.name == lower) return entry.type;
  }
  return kUnknownType;
}

unsigned type_of_value(const Json& value) {
  if (value.is_null()) return kNullType;
  if (value.is_bool()) return kBooleanType;
  const bool is_big = value.is_big_number();
  if (value.is_int() || (is_big && value.as_big_number().is_integer())) return kIntegerType;
  if (value.is_number()) return kNumberType;
  if (value.is_string()) return kStringType;
  return value.is_array() ? kArrayType : kObjectType;
}

std::optional<Json> json_of(std::string_view text) {
  Result<Json> parsed = parse_json(text);
  if (!parsed.ok()) return {};
  return std::move(parsed).value();
}

// No digit of an integer is lost, and a number beyond all doubles stays as it is written.
std::optional<Json> number_of(std::string_view text) {
  if (std::optional<Json> integer = parse_python_int(text)) return integer;
  const std::optional<double> value = parse_python_float(text);
  if (!value) return {};
  if (!std::isfinite(*value)) return json_of(text);
  return *value == std::trunc(*value) ? truncated(*value) : Json(*value);
}

std::optional<Json> boolean_of(std::string_view text) {
  const std::string word = stripped_lower(text);
  if (word == "true" || word == "1") return Json(true);
  if (word == "false" || word == "0") return Json(false);
  return {};
}

std::optional<Json> value_of_type(std::string_view text, SchemaType type) {
  switch (type) {
    case kNullType:
      return jinja::to_lower(text) == "null" ? std::optional(Json()) : std::nullopt;
    case kIntegerType:
      return parse_python_int(text);
    case kNumberType:
      return number_of(text);
    case kBooleanType:
      return boolean_of(text);
    case kObjectType:
    case kArrayType:
      return json_of(text);
    case kStringType:
      return Json(text);
    case kUnknownType:
      break;
  }
  return {};
}

// The first value of `enum` or `const` that is written as `text`.
const Json* listed_value(std::string_view text, const Json& schema) {
  const auto is_text = [&](const Json& value) { return argument_text(value) == text; };
  if (const Json* value = schema.find("const"); value && is_text(*value)) return value;
  const Json* values = schema.find("enum");
  if (!values || !values->is_array()) return nullptr;
  const auto found = std::ranges::find_if(values->as_array(), is_text);
  return found == values->as_array().end() ? nullptr : &*found;
}

}  // namespace

std::string argument_text(const Json& value) {
  return value.is_string() ? value.as_string() : dump_json(value, JsonStyle::kPython);
}

struct ToolTyping::Visit {
  int depth = 0;
  std::unordered_set<const Json*> seen;
};

// Through $ref, as far as it stays in this document.
const Json* ToolTyping::resolve(const Json* schema) const {
  for (int i = 0; schema && i < kMaxReferences; ++i) {
    const Json* reference = schema->find("$ref");
    if (!reference || !reference->is_string()) return schema;
    const std::string_view target = reference->as_string();
    if (!target.starts_with('#')) return schema;
    schema = follow_pointer(root_, target.substr(1));
  }
  return schema;
}

unsigned ToolTyping::collect(const Json* schema, Visit& visit) const {
  schema = resolve(schema);
  if (!schema || visit.depth == kMaxDepth || !visit.seen.insert(schema).second) return 0;
  if (!schema->is_object()) return kStringType;
  unsigned types = 0;
  if (const Json* type = schema->find("type")) {
    if (type->is_string()) types |= type_of_name(type->as_string());
    if (type->is_array()) {
      for (const Json& name : type->as_array()) {
        if (name.is_string()) types |= type_of_name(name.as_string());
      }
    }
  }
  if (const Json* values = schema->find("enum"); values && values->is_array()) {
    for (const Json& value : values->as_array()) types |= type_of_value(value);
  }
  if (const Json* value = schema->find("const")) types |= type_of_value(*value);
  ++visit.depth;
  for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
    const Json* options = schema->find(keyword);
    if (!options || !options->is_array()) continue;
    for (const Json& option : options->as_array()) types |= collect(&option, visit);
  }
  --visit.depth;
  if (types == 0 && schema->find("properties")) types |= kObjectType;
  if (types == 0 && schema->find("items")) types |= kArrayType;
  return types;
}

unsigned ToolTyping::types(const Json* schema) {
  if (!schema) return kStringType;
  const auto known = types_.find(schema);
  if (known != types_.end()) return known->second;
  Visit visit;
  const unsigned found = collect(schema, visit);
  return types_[schema] = found ? found : unsigned{kStringType};
}

// Properties of `schema` itself, then of each alternative those that none before it has.
void ToolTyping::gather(const Json* schema, Visit& visit, Properties& out) const {
  schema = resolve(schema);
  if (!schema || visit.depth == kMaxDepth || !visit.seen.insert(schema).second) return;
  if (const Json* own = schema->find("properties"); own && own->is_object())
    for (const Json::Member& member : own->as_object())
      out.own.emplace(member.first, &member.second);
  const Json* others = schema->find("additionalProperties");
  // Beside patterns nothing says which names are others.
  const bool has_patterns = schema->find("patternProperties") != nullptr;
  if (!out.others && others && others->is_object() && !has_patterns) out.others = others;
  ++visit.depth;
  for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
    const Json* options = schema->find(keyword);
    if (!options || !options->is_array()) continue;
    for (const Json& option : options->as_array()) gather(&option, visit, out);
  }
  --visit.depth;
}

const ToolTyping::Properties& ToolTyping::properties(const Json& schema) {
  const auto [at, inserted] = properties_.try_emplace(&schema);
  Visit visit;
  if (inserted) gather(&schema, visit, at->second);
  return at->second;
}

const Json* ToolTyping::property(const Json& schema, std::string_view name) {
  const Properties& all = properties(schema);
  const auto found = all.own.find(name);
  return found == all.own.end() ? all.others : found->second;
}

Json ToolTyping::value(std::string_view text, const Json* schema) {
  if (const Json* at = resolve(schema))
    if (const Json* found = listed_value(text, *at)) return *found;
  const unsigned allowed = types(schema);
  for (const SchemaType type :
       {kNullType, kIntegerType, kNumberType, kBooleanType, kObjectType, kArrayType, kStringType}) {
    if (!(allowed & type)) continue;
    if (std::optional<Json> found = value_of_type(text, type)) {
      if (type == kObjectType || type == kArrayType) {
        // Other JSON is what the schema may allow as well: a text.
        if ((allowed & kStringType) && !(allowed & type_of_value(*found))) continue;
        coerce(*found, schema);
      }
      return *std::move(found);
    }
  }
  if (std::optional<Json> found = json_of(text)) return *std::move(found);
  return Json(text);
}

// Texts inside an object or list become what their own schemas call them, unless they may be texts.
void ToolTyping::coerce(Json& value, const Json* schema) {
  schema = resolve(schema);
  if (!schema) return;
  if (value.is_string()) {
    if (types(schema) & kStringType) return;
    value = this->value(value.as_string(), schema);
  } else if (value.is_object()) {
    for (Json::Member& member : value.as_object()) {
      if (const Json* found = property(*schema, member.first)) coerce(member.second, found);
    }
  } else if (value.is_array()) {
    const Json* items = schema->find("items");
    if (!items || !items->is_object()) return;
    for (Json& item : value.as_array()) coerce(item, items);
  }
}

}  // namespace glint
