#include "text/grammar/grammar_schema.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/contains.h"
#include "base/json_pointer.h"
#include "base/str.h"
#include "text/grammar/grammar_all_of.h"
#include "text/grammar/grammar_arrangements.h"
#include "text/grammar/grammar_keywords.h"
#include "text/grammar/grammar_one_of.h"
#include "text/grammar/grammar_types.h"

namespace glint {
namespace {

constexpr int kMaxSchemas = 5000;  // in one document

class Preparer {
 public:
  Preparer(Json& root, std::string_view pattern_filler)
      : root_(root), pattern_filler_(pattern_filler), one_ofs_(root) {}

  Status run() {
    GLINT_TRY_STATUS(prepare(root_, "", 0));
    // References may lead to places that are no part of a schema by themselves.
    while (!references_.empty()) {
      const std::string path = references_.back();
      references_.pop_back();
      if (seen_.contains(path)) continue;
      Json* const target = follow_pointer(root_, path);
      if (!target) return invalid(str("there is no ", quoted("#" + path), " to refer to"));
      GLINT_TRY_STATUS(prepare(*target, path, 0));
    }
    if (!refers_to_one_of_) one_ofs_.open();
    return Ok{};
  }

 private:
  Status prepare(Json& schema, const std::string& path, int depth) {
    if (depth > kMaxSchemaDepth)
      return invalid(str("schemas are nested deeper than ", kMaxSchemaDepth, " levels"));
    if (static_cast<int>(seen_.size()) >= kMaxSchemas)
      return invalid(str("it holds more than ", kMaxSchemas, " schemas"));
    if (!seen_.insert(path).second || schema.is_bool()) return Ok{};
    if (!schema.is_object())
      return schema_error(path, str("expected a schema, found ", schema.kind()));
    for (const Json::Member& member : schema.as_object()) {
      if (contains(unsupported_keywords(), member.first))
        return schema_error(path, str(quoted(member.first), " is not supported"));
    }
    if (const Json* unique = schema.find("uniqueItems"); unique && *unique != Json(false)) {
      if (!unique->is_bool())
        return schema_error(path,
                            str("\"uniqueItems\" is ", unique->kind(), " where a boolean belongs"));
      GLINT_TRY_STATUS(list_arrangements(schema, root_, path));
    }
    GLINT_TRY_STATUS(check_alone(schema, path));
    GLINT_TRY_STATUS(prepare_types(schema, root_, path, pattern_filler_));
    one_ofs_.find(schema, path);
    return prepare_children(schema, path, depth);
  }

  // A schema that is a reference, a list of values or of alternatives is nothing else besides.
  Status check_alone(Json& schema, const std::string& path) {
    std::string_view whole;
    for (const Json::Member& member : schema.as_object()) {
      if (!contains(whole_keywords(), member.first)) continue;
      if (!whole.empty()) {
        return schema_error(path, str(quoted(whole), " and ", quoted(member.first),
                                      " in one schema are not supported"));
      }
      whole = member.first;
    }
    if (whole.empty()) return Ok{};
    for (const TypeKeywords& keywords : type_keywords()) {
      for (const std::string_view name : keywords.names) {
        if (schema.find(name)) {
          return schema_error(path,
                              str(quoted(name), " beside ", quoted(whole), " is not supported"));
        }
      }
    }
    if (whole == "$ref") return add_reference(schema, path);
    if (schema.find("type")) return check_type_beside(schema, whole, path);
    return check_alternatives(*schema.find(whole), whole, path);
  }

  Status check_alternatives(const Json& value, std::string_view whole, const std::string& path) {
    if ((whole == "const" || whole == "enum") && has_big_number(value))
      return schema_error(path, str(quoted(whole), " holds a number beyond 64 bits"));
    if (whole == "const") return Ok{};
    if (!value.is_array() || value.as_array().empty())
      return schema_error(path, str(quoted(whole), " needs a list that is not empty"));
    return Ok{};
  }

  Status add_reference(const Json& schema, const std::string& path) {
    const Json& target = *schema.find("$ref");
    if (schema.find("type")) return schema_error(path, "\"type\" beside \"$ref\" is not supported");
    if (!target.is_string() || !target.as_string().starts_with('#'))
      return schema_error(path, "\"$ref\" can only refer to parts of this schema (\"#/...\")");
    const std::string& text = target.as_string();
    if (text.find_first_of("~%") != text.npos)
      return schema_error(path, str("escapes in ", quoted(text), " are not supported"));
    references_.push_back(text.substr(1));
    refers_to_one_of_ = refers_to_one_of_ || text.find("/oneOf/") != text.npos;
    return Ok{};
  }

  // `type` beside values or alternatives holds for each of them.
  Status check_type_beside(Json& schema, std::string_view whole, const std::string& path) {
    GLINT_TRY_STATUS(check_alternatives(*schema.find(whole), whole, path));
    const Json type = *schema.find("type");
    const auto fits = [&](const Json& option) { return type_fits(root_, type, option); };
    if (whole == "const") {
      if (fits(Json(Json::Object{{"const", *schema.find("const")}}))) return Ok{};
      return schema_error(path, "\"const\" is not of the \"type\" beside it");
    }
    Json options = *schema.find(whole);
    Json::Array kept;
    for (Json& option : options.as_array()) {
      if (whole == "enum") {
        if (fits(Json(Json::Object{{"const", option}}))) kept.push_back(std::move(option));
        continue;
      }
      const bool typed =
          option.find("type") || option.find("const") || option.find("enum") || option.find("$ref");
      if (option.is_object() && !typed) option.set("type", type);
      if (!fits(option))
        return schema_error(
            path, str("\"type\" beside ", quoted(whole), " is not supported, unless each ",
                      "of its schemas is of that type"));
      kept.push_back(std::move(option));
    }
    if (kept.empty())
      return schema_error(path, "no value of \"enum\" is of the \"type\" beside it");
    schema.set(whole, std::move(kept));
    return Ok{};
  }

  static bool has_big_number(const Json& value) {
    if (value.is_array()) return std::ranges::any_of(value.as_array(), has_big_number);
    if (!value.is_object()) return value.is_big_number();
    return std::ranges::any_of(value.as_object(),
                               [](const Json::Member& one) { return has_big_number(one.second); });
  }

  Status prepare_children(Json& schema, const std::string& path, int depth) {
    for (auto& [name, value] : schema.as_object()) {
      const std::string below = str(path, "/", name);
      if (contains({"items", "additionalProperties", "unevaluatedProperties", "propertyNames"},
                   name)) {
        GLINT_TRY_STATUS(prepare(value, below, depth + 1));
      } else if (value.is_array() && contains({"anyOf", "oneOf", "allOf", "prefixItems"}, name)) {
        for (std::size_t i = 0; i < value.as_array().size(); ++i) {
          GLINT_TRY_STATUS(prepare(value.as_array()[i], str(below, "/", i), depth + 1));
        }
      } else if (value.is_object() &&
                 contains({"properties", "patternProperties", "$defs", "definitions"}, name)) {
        for (auto& [key, child] : value.as_object()) {
          GLINT_TRY_STATUS(prepare(child, str(below, "/", key), depth + 1));
        }
      }
    }
    return Ok{};
  }

  Json& root_;
  const std::string_view pattern_filler_;
  std::set<std::string> seen_;           // paths of schemas
  std::vector<std::string> references_;  // paths of schemas
  OneOfs one_ofs_;
  bool refers_to_one_of_ = false;
};

}  // namespace

Status prepare_schema(Json& root, std::string_view pattern_filler) {
  if (dump_json(root).size() > kMaxSchemaBytes)
    return invalid(str("it is larger than ", with_commas(kMaxSchemaBytes), " bytes"));
  GLINT_TRY_STATUS(merge_all_of(root, kMaxSchemaBytes));
  return Preparer(root, pattern_filler).run();
}

}  // namespace glint
