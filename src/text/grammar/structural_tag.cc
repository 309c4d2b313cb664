#include "text/grammar/structural_tag.h"

#include <algorithm>

#include "base/contains.h"
#include "base/str.h"
#include "text/grammar/grammar_pattern.h"
#include "text/grammar/grammar_schema.h"

namespace glint {
namespace {

constexpr int kMaxDepth = 32;
constexpr int kMaxFormats = 1000;

// Checks the formats of a tag, and makes their schemas what the compiler reads.
class FormatReader {
 public:
  Status read(Json& format, const std::string& path, int depth) {
    if (depth > kMaxDepth || ++num_formats_ > kMaxFormats)
      return invalid(str(path, ": formats are nested deeper than ", kMaxDepth,
                         " levels, or there are more than ", kMaxFormats));
    const Json* type = format.find("type");
    if (!type || !type->is_string()) return invalid(str(path, ".type is missing"));
    const std::string kind = type->as_string();
    if (kind == "json_schema") return read_schema(format, path);
    if (kind == "regex") return read_regex(format, path);
    if (contains({"const_string", "any_text"}, kind)) return Ok{};
    if (contains({"sequence", "or"}, kind)) return read_list(format, "elements", path, depth);
    if (contains({"triggered_tags", "tags_with_separator"}, kind))
      return read_list(format, "tags", path, depth);
    if (!contains({"tag", "optional", "plus", "star"}, kind))
      return invalid(str(path, ".type is ", quoted(kind), ", which is not supported"));
    for (auto& [name, value] : format.as_object())
      if (name == "content") return read(value, path + ".content", depth + 1);
    return invalid(str(path, ".content is missing"));
  }

 private:
  static Status read_schema(Json& format, const std::string& path) {
    if (const Json* style = format.find("style"); style && *style != Json("json"))
      return invalid(str(path, ".style is not supported; use json"));
    const Json* given = format.find("json_schema");
    if (!given) return invalid(str(path, ".json_schema is missing"));
    Json schema = *given;
    GLINT_TRY_STATUS(prepare_schema(schema).in(path + ".json_schema"));
    format = Json::Object{{"type", "json_schema"},
                          {"json_schema", std::move(schema)},
                          {"max_whitespace_cnt", kMaxJsonBlanks}};
    return Ok{};
  }

  static Status read_regex(const Json& format, const std::string& path) {
    const Json* pattern = format.find("pattern");
    if (!pattern || !pattern->is_string()) return invalid(str(path, ".pattern is missing"));
    return check_expression(pattern->as_string()).in(path + ".pattern");
  }

  Status read_list(Json& format, std::string_view list, const std::string& path, int depth) {
    for (auto& [name, value] : format.as_object()) {
      if (name != list) continue;
      if (!value.is_array()) return invalid(str(path, ".", list, " is no list"));
      for (std::size_t i = 0; i < value.as_array().size(); ++i) {
        Json& item = value.as_array()[i];
        if (!item.is_object()) return invalid(str(path, ".", list, "[", i, "] is no object"));
        if (list == "tags" && !item.find("type")) item.set("type", "tag");
        GLINT_TRY_STATUS(read(item, str(path, ".", list, "[", i, "]"), depth + 1));
      }
      return Ok{};
    }
    return invalid(str(path, ".", list, " is missing"));
  }

  int num_formats_ = 0;
};

// The older form in xgrammar's words.
Result<Json> format_of_structures(const Json& given) {
  const Json* structures = given.find("structures");
  const Json* triggers = given.find("triggers");
  if (!structures || !structures->is_array() || !triggers || !triggers->is_array())
    return invalid("a structural tag has a format, or structures and triggers");
  Json::Array tags;
  for (const Json& structure : structures->as_array()) {
    const Json *begin = structure.find("begin"), *end = structure.find("end");
    if (!begin || !end) return invalid("a structure has begin, schema and end");
    const Json* schema = structure.find("schema");
    Json content = schema ? Json(Json::Object{{"type", "json_schema"}, {"json_schema", *schema}})
                          : Json(Json::Object{{"type", "any_text"}});
    tags.push_back(Json::Object{
        {"type", "tag"}, {"begin", *begin}, {"content", std::move(content)}, {"end", *end}});
  }
  return Json(
      Json::Object{{"type", "triggered_tags"}, {"triggers", *triggers}, {"tags", std::move(tags)}});
}

}  // namespace

Result<Json> read_structural_tag(const Json& given) {
  if (!given.is_object()) return invalid(str("a structural tag is ", given.kind()));
  Json format;
  if (const Json* found = given.find("format")) {
    format = *found;
  } else {
    GLINT_TRY(format, format_of_structures(given));
  }
  if (!format.is_object()) return invalid("format is no object");
  GLINT_TRY_STATUS(FormatReader().read(format, "format", 0));
  return Json(Json::Object{{"type", "structural_tag"}, {"format", std::move(format)}});
}

}  // namespace glint
