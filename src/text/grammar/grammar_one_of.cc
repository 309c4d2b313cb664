#include "text/grammar/grammar_one_of.h"

#include <algorithm>
#include <set>

#include "base/contains.h"
#include "base/json_pointer.h"
#include "base/str.h"
#include "text/answer/tool_typing.h"
#include "text/grammar/grammar_keywords.h"

namespace glint {
namespace {

// The types that values of it have for certain; all, if it does not say.
unsigned certain_types(const Json& root, const Json& schema) {
  const bool told = schema.find("type") || schema.find("const") || schema.find("enum");
  if (!told) return ~0u;
  const unsigned types = ToolTyping(root).types(&schema);
  return types & kNumberType ? types | kIntegerType : types;
}

bool is_required(const Json& object, std::string_view name) {
  const Json* names = object.find("required");
  if (!names || !names->is_array()) return false;
  const Json::Array& all = names->as_array();
  return contains(all, Json(name));
}

// Adds what a property can be; false, if that may be no text, or one that is there already.
bool add_texts(const Json& object, std::string_view name, std::set<std::string_view>& texts) {
  const Json* properties = object.find("properties");
  const Json* property = properties ? properties->find(name) : nullptr;
  if (!property) return false;
  const auto add = [&](const Json& value) {
    return value.is_string() && texts.insert(value.as_string()).second;
  };
  if (const Json* value = property->find("const")) return add(*value);
  const Json* values = property->find("enum");
  return values && values->is_array() &&
         std::all_of(values->as_array().begin(), values->as_array().end(), add);
}

}  // namespace

void OneOfs::find(const Json& schema, const std::string& path) {
  const Json* options = schema.find("oneOf");
  if (!options) return;
  unsigned seen = 0;
  std::vector<std::pair<const Json*, std::string>> objects;
  for (std::size_t i = 0; i < options->as_array().size(); ++i) {
    std::string at = str(path, "/oneOf/", i);
    const Json& option = target_of(root_, options->as_array()[i], at);
    const unsigned types = certain_types(root_, option);
    if (types == kObjectType) {
      objects.emplace_back(&option, std::move(at));
      continue;
    }
    if ((types & kObjectType) || (types & seen)) return;
    seen |= types;
  }
  if (objects.size() > 1 && !find_tag(schema, objects)) return;
  disjoint_.push_back(path);
}

bool OneOfs::find_tag(const Json& schema,
                      const std::vector<std::pair<const Json*, std::string>>& objects) {
  const Json* named = schema.find("discriminator");
  const Json* name = named ? named->find("propertyName") : nullptr;
  const Json* properties = objects[0].first->find("properties");
  if (!properties || !properties->is_object()) return false;
  for (const Json::Member& member : properties->as_object()) {
    const bool must = name && *name == Json(member.first);
    std::set<std::string_view> texts;
    const auto differs = [&](const auto& object) {
      return (must || is_required(*object.first, member.first)) &&
             add_texts(*object.first, member.first, texts);
    };
    if (!std::all_of(objects.begin(), objects.end(), differs)) continue;
    for (const auto& [object, path] : objects)
      if (!is_required(*object, member.first)) tags_.emplace_back(path, member.first);
    return true;
  }
  return false;
}

void OneOfs::open() {
  for (const auto& [path, name] : tags_) {
    Json* object = follow_pointer(root_, path);  // none, where a name holds a slash
    if (!object || is_required(*object, name)) continue;
    const Json* before = object->find("required");
    Json::Array names = before ? before->as_array() : Json::Array{};
    names.push_back(name);
    object->set("required", std::move(names));
  }
  // Inner ones first: their paths lead through the "oneOf" around them.
  for (auto path = disjoint_.rbegin(); path != disjoint_.rend(); ++path) {
    Json* schema = follow_pointer(root_, *path);
    if (!schema || !schema->is_object()) continue;
    for (Json::Member& member : schema->as_object())
      if (member.first == "oneOf") member.first = "anyOf";
  }
}

}  // namespace glint
