#include "text/grammar/grammar_arrangements.h"

#include <algorithm>
#include <vector>

#include "base/contains.h"
#include "base/str.h"
#include "text/grammar/grammar_keywords.h"

namespace glint {
namespace {

constexpr std::int64_t kMaxLists = 2000;

// The values that a schema lists, each once; none, if it says anything else.
Json::Array values_of(const Json& root, const Json& schema) {
  Json::Array values;
  for (const Json::Member& member : schema.as_object()) {
    if (member.first != "const" && member.first != "enum" && restricts(member.first)) return {};
  }
  const auto add = [&](const Json& value) {
    const Json* type = schema.find("type");
    const bool fits = !type || type_fits(root, *type, Json(Json::Object{{"const", value}}));
    const bool enough = std::ssize(values) > kMaxLists;
    if (fits && !enough && !contains(values, value)) values.push_back(value);
  };
  if (const Json* value = schema.find("const")) {
    add(*value);
  } else if (const Json* list = schema.find("enum"); list && list->is_array()) {
    for (const Json& value : list->as_array()) add(value);
  } else if (schema.find("type") && *schema.find("type") == Json("boolean")) {
    add(Json(true)), add(Json(false));
  }
  return values;
}

}  // namespace

Status list_arrangements(Json& schema, const Json& root, const std::string& path) {
  const auto bound = [&](const char* name, std::int64_t otherwise) {
    const Json* count = schema.find(name);
    return count && count->is_int() ? count->as_int() : otherwise;
  };
  std::string at_items;
  const Json* items = schema.find("items");
  const Json::Array values = items && items->is_object()
                                 ? values_of(root, target_of(root, *items, at_items))
                                 : Json::Array{};
  std::int64_t least = bound("minItems", 0), most = bound("maxItems", kMaxLists);
  if (most <= 1) {
    schema.set("uniqueItems", false);
    return Ok{};
  }
  const Json* type = schema.find("type");
  if (values.empty() || schema.find("prefixItems") || (type && *type != Json("array")))
    return schema_error(path, "\"uniqueItems\" is not supported, unless \"items\" are an \"enum\"");
  most = std::min(most, std::ssize(values));
  std::vector<Json::Array> lists = {{}};
  Json::Array all;
  for (std::size_t i = 0; i < lists.size() && std::ssize(lists) <= kMaxLists; ++i) {
    const std::int64_t size = std::ssize(lists[i]);
    if (size >= least) all.push_back(lists[i]);
    for (const Json& value : values) {
      if (size == most || contains(lists[i], value)) continue;
      lists.push_back(lists[i]);
      lists.back().push_back(value);
    }
  }
  if (std::ssize(lists) > kMaxLists)
    return schema_error(path,
                        str("\"uniqueItems\" is not supported where \"items\" of an \"enum\" make "
                            "more than ",
                            kMaxLists, " lists; \"maxItems\" makes them fewer"));
  if (all.empty()) return schema_error(path, "\"minItems\" are more than \"uniqueItems\" can be");
  drop(schema, {"type", "items", "minItems", "maxItems", "uniqueItems"});
  schema.set("enum", std::move(all));
  return Ok{};
}

}  // namespace glint
