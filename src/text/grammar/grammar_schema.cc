#include "text/grammar/grammar_schema.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "base/contains.h"
#include "base/str.h"
#include "text/answer/tool_typing.h"
#include "text/grammar/grammar_all_of.h"
#include "text/grammar/grammar_pattern.h"

namespace glint {
namespace {

constexpr int kMaxDepth = 64;
constexpr int kMaxSchemas = 5000;               // in one document
constexpr std::size_t kMaxBytes = 256 * 1024;   // of the document
constexpr std::int64_t kMaxRepetitions = 5000;  // of items or properties
constexpr std::int64_t kMaxMinLength = 256;     // the most that strings can be asked for
constexpr std::size_t kMaxLists = 2000;         // whose items differ

using Names = std::vector<std::string_view>;

// Keywords that restrict, and that no grammar here can express.
const Names& unsupported() {
  static const Names names = {"not",
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

// The keywords of a type; each says nothing about values of other types.
struct TypeKeywords {
  const char* type;
  Names names;
};
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

// The compiler reads one of these in a schema, and no keyword beside it.
const Names& whole_keywords() {
  static const Names names = {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"};
  return names;
}

// Formats that have a grammar of their own.
const Names& formats() {
  static const Names names = {"date", "time",          "date-time",   "duration",
                              "ipv4", "ipv6",          "hostname",    "uuid",
                              "uri",  "uri-reference", "uri-template"};
  return names;
}

// E-mail addresses without quotes: the compiler's own grammar would break the JSON around them.
constexpr const char* kEmail =
    "^[A-Za-z0-9_+-]+(\\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9]+(-[A-Za-z0-9]+)*"
    "(\\.[A-Za-z0-9]+(-[A-Za-z0-9]+)*)+$";

constexpr std::int64_t kNoLimit = 1 << 30;

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

class Preparer {
 public:
  Preparer(Json& root, std::string_view pattern_filler)
      : root_(root), pattern_filler_(pattern_filler) {}

  Status run() {
    GLINT_TRY_STATUS(prepare(root_, "", 0));
    // References may lead to places that are no part of a schema by themselves.
    while (!references_.empty()) {
      const std::string path = references_.back();
      references_.pop_back();
      if (seen_.contains(path)) continue;
      const Json* target = follow_pointer(root_, path);
      if (!target) return invalid(str("there is no ", quoted("#" + path), " to refer to"));
      GLINT_TRY_STATUS(prepare(const_cast<Json&>(*target), path, 0));
    }
    open_alternatives();
    return Ok{};
  }

 private:
  static Error at(const std::string& path, const std::string& what) {
    return invalid(path.empty() ? what : str("at ", quoted(path), ": ", what));
  }

  Status prepare(Json& schema, const std::string& path, int depth) {
    if (depth > kMaxDepth)
      return invalid(str("schemas are nested deeper than ", kMaxDepth, " levels"));
    if (static_cast<int>(seen_.size()) >= kMaxSchemas)
      return invalid(str("it holds more than ", kMaxSchemas, " schemas"));
    if (!seen_.insert(path).second || schema.is_bool()) return Ok{};
    if (!schema.is_object()) return at(path, str("expected a schema, found ", schema.kind()));
    for (const Json::Member& member : schema.as_object()) {
      if (contains(unsupported(), member.first))
        return at(path, str(quoted(member.first), " is not supported"));
    }
    if (const Json* unique = schema.find("uniqueItems"); unique && *unique == Json(true)) {
      GLINT_TRY_STATUS(list_arrangements(schema, path));
    }
    GLINT_TRY_STATUS(check_alone(schema, path));
    GLINT_TRY_STATUS(give_type(schema, path));
    GLINT_TRY_STATUS(bound_numbers(schema, path));
    if (is_type(schema, "string")) {
      GLINT_TRY_STATUS(prepare_string(schema, path));
    }
    if (is_type(schema, "array")) {
      GLINT_TRY_STATUS(prepare_array(schema, path));
    }
    if (is_type(schema, "object")) {
      GLINT_TRY_STATUS(prepare_object(schema, path));
    }
    find_disjoint(schema, path);
    return prepare_children(schema, path, depth);
  }

  // Beside "type".
  static bool restricts(std::string_view keyword) {
    return contains(unsupported(), keyword) || contains(whole_keywords(), keyword) ||
           std::ranges::any_of(type_keywords(), [&](const TypeKeywords& one) {
             return contains(one.names, keyword);
           });
  }

  // A list whose items differ has a grammar where these are some values: all lists of them, in
  // every order.
  Status list_arrangements(Json& schema, const std::string& path) const {
    const auto bound = [&](const char* name, std::int64_t otherwise) {
      const Json* count = schema.find(name);
      return count && count->is_int() ? count->as_int() : otherwise;
    };
    std::string at_items;
    const Json* items = schema.find("items");
    const Json::Array values =
        items && items->is_object() ? values_of(target(*items, at_items)) : Json::Array{};
    std::int64_t least = bound("minItems", 0), most = bound("maxItems", kNoLimit);
    if (most <= 1) {
      schema.set("uniqueItems", false);
      return Ok{};
    }
    const Json* type = schema.find("type");
    if (values.empty() || schema.find("prefixItems") || (type && *type != Json("array")))
      return at(path, "\"uniqueItems\" is not supported, unless \"items\" are an \"enum\"");
    most = std::min(most, std::ssize(values));
    std::vector<Json::Array> lists = {{}};
    Json::Array all;
    for (std::size_t i = 0; i < lists.size() && lists.size() <= kMaxLists; ++i) {
      const std::int64_t size = std::ssize(lists[i]);
      if (size >= least) all.push_back(lists[i]);
      for (const Json& value : values) {
        if (size == most || contains(lists[i], value)) continue;
        lists.push_back(lists[i]);
        lists.back().push_back(value);
      }
    }
    if (lists.size() > kMaxLists)
      return at(path, str("\"uniqueItems\" is not supported where \"items\" of an \"enum\" make "
                          "more than ",
                          kMaxLists, " lists; \"maxItems\" makes them fewer"));
    if (all.empty()) return at(path, "\"minItems\" are more than \"uniqueItems\" can be");
    std::erase_if(schema.as_object(), [](const Json::Member& one) {
      return contains({"type", "items", "minItems", "maxItems", "uniqueItems"}, one.first);
    });
    schema.set("enum", std::move(all));
    return Ok{};
  }

  // The values that a schema lists, each once; none, if it says anything else.
  Json::Array values_of(const Json& schema) const {
    Json::Array values;
    for (const Json::Member& member : schema.as_object()) {
      if (member.first != "const" && member.first != "enum" && restricts(member.first)) return {};
    }
    const auto add = [&](const Json& value) {
      const Json* type = schema.find("type");
      const bool fits = !type || type_fits(*type, Json(Json::Object{{"const", value}}));
      const bool enough = values.size() > kMaxLists;
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

  // A schema that is a reference, a list of values or of alternatives is nothing else besides.
  Status check_alone(Json& schema, const std::string& path) {
    std::string_view whole;
    for (const Json::Member& member : schema.as_object()) {
      if (!contains(whole_keywords(), member.first)) continue;
      if (!whole.empty()) {
        return at(path, str(quoted(whole), " and ", quoted(member.first),
                            " in one schema are not supported"));
      }
      whole = member.first;
    }
    if (whole.empty()) return Ok{};
    for (const TypeKeywords& keywords : type_keywords()) {
      for (const std::string_view name : keywords.names) {
        if (schema.find(name)) {
          return at(path, str(quoted(name), " beside ", quoted(whole), " is not supported"));
        }
      }
    }
    if (whole == "$ref") return add_reference(schema, path);
    if (schema.find("type")) return check_type_beside(schema, whole, path);
    return check_alternatives(*schema.find(whole), whole, path);
  }

  Status check_alternatives(const Json& value, std::string_view whole, const std::string& path) {
    if ((whole == "const" || whole == "enum") && has_big_number(value))
      return at(path, str(quoted(whole), " holds a number beyond 64 bits"));
    if (whole == "const") return Ok{};
    if (!value.is_array() || value.as_array().empty())
      return at(path, str(quoted(whole), " needs a list that is not empty"));
    return Ok{};
  }

  Status add_reference(const Json& schema, const std::string& path) {
    const Json& target = *schema.find("$ref");
    if (schema.find("type")) return at(path, "\"type\" beside \"$ref\" is not supported");
    if (!target.is_string() || !target.as_string().starts_with('#'))
      return at(path, "\"$ref\" can only refer to parts of this schema (\"#/...\")");
    const std::string& text = target.as_string();
    if (text.find_first_of("~%") != text.npos)
      return at(path, str("escapes in ", quoted(text), " are not supported"));
    references_.push_back(text.substr(1));
    refers_to_one_of_ = refers_to_one_of_ || text.find("/oneOf/") != text.npos;
    return Ok{};
  }

  // The schema that a chain of references ends in; its path goes to `path`.
  const Json& target(const Json& schema, std::string& path) const {
    const Json* at = &schema;
    for (int i = 0; i < kMaxDepth; ++i) {
      const Json* reference = at->find("$ref");
      if (!reference || !reference->is_string() || !reference->as_string().starts_with('#')) break;
      const Json* next = follow_pointer(root_, reference->as_string().substr(1));
      if (!next) break;
      at = next;
      path = reference->as_string().substr(1);
    }
    return *at;
  }

  // The types that values of it have for certain; all, if it does not say.
  unsigned certain_types(const Json& schema) const {
    const bool told = schema.find("type") || schema.find("const") || schema.find("enum");
    if (!told) return ~0u;
    const unsigned types = ToolTyping(root_).types(&schema);
    return types & kNumberType ? types | kIntegerType : types;
  }

  // No value fits two schemas of a "oneOf" whose types differ, or whose objects differ in a text
  // that each must have: Pydantic's and OpenAPI's unions, which call it their discriminator.
  void find_disjoint(const Json& schema, const std::string& path) {
    const Json* options = schema.find("oneOf");
    if (!options) return;
    unsigned seen = 0;
    std::vector<std::pair<const Json*, std::string>> objects;
    for (std::size_t i = 0; i < options->as_array().size(); ++i) {
      std::string at = str(path, "/oneOf/", i);
      const Json& option = target(options->as_array()[i], at);
      const unsigned types = certain_types(option);
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

  bool find_tag(const Json& schema,
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

  static bool is_required(const Json& object, std::string_view name) {
    const Json* names = object.find("required");
    if (!names || !names->is_array()) return false;
    const Json::Array& all = names->as_array();
    return contains(all, Json(name));
  }

  // Adds what a property can be; false, if that may be no text, or one that is there already.
  static bool add_texts(const Json& object, std::string_view name,
                        std::set<std::string_view>& texts) {
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

  // The compiler sees only some of the "oneOf" that are as good as "anyOf", and refuses others.
  // Done at the end, when nobody walks over what changes here.
  void open_alternatives() {
    if (refers_to_one_of_) return;
    const auto find = [&](const std::string& path) {  // none, where a name holds a slash
      return const_cast<Json*>(follow_pointer(root_, path));
    };
    for (const auto& [path, name] : tags_) {
      Json* object = find(path);
      if (!object || is_required(*object, name)) continue;
      const Json* before = object->find("required");
      Json::Array names = before ? before->as_array() : Json::Array{};
      names.push_back(name);
      object->set("required", std::move(names));
    }
    // Inner ones first: their paths lead through the "oneOf" around them.
    for (auto path = disjoint_.rbegin(); path != disjoint_.rend(); ++path) {
      Json* schema = find(*path);
      if (!schema || !schema->is_object()) continue;
      for (Json::Member& member : schema->as_object())
        if (member.first == "oneOf") member.first = "anyOf";
    }
  }

  // Whether all values of `option` are of `type`, a name or a list of names.
  bool type_fits(const Json& type, const Json& option) const {
    const Json only_type(Json::Object{{"type", type}});
    unsigned allowed = ToolTyping(only_type).types(&only_type);
    if (allowed & kNumberType) allowed |= kIntegerType;
    return (ToolTyping(root_).types(&option) & ~allowed) == 0;
  }

  // `type` beside values or alternatives holds for each of them.
  Status check_type_beside(Json& schema, std::string_view whole, const std::string& path) {
    GLINT_TRY_STATUS(check_alternatives(*schema.find(whole), whole, path));
    const Json type = *schema.find("type");
    const auto fits = [&](const Json& option) { return type_fits(type, option); };
    if (whole == "const") {
      if (fits(Json(Json::Object{{"const", *schema.find("const")}}))) return Ok{};
      return at(path, "\"const\" is not of the \"type\" beside it");
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
        return at(path, str("\"type\" beside ", quoted(whole), " is not supported, unless each ",
                            "of its schemas is of that type"));
      kept.push_back(std::move(option));
    }
    if (kept.empty()) return at(path, "no value of \"enum\" is of the \"type\" beside it");
    schema.set(whole, std::move(kept));
    return Ok{};
  }

  Status give_type(Json& schema, const std::string& path) {
    if (const Json* type = schema.find("type")) {
      if (type->is_string() || type->is_array()) return Ok{};
      return at(path, str("\"type\" is ", type->kind(), " where a name belongs"));
    }
    Json::Array types;
    for (const TypeKeywords& keywords : type_keywords()) {
      const bool used =
          std::any_of(keywords.names.begin(), keywords.names.end(),
                      [&](std::string_view name) { return schema.find(name) != nullptr; });
      if (used) types.push_back(keywords.type);
    }
    if (types.size() == 1) schema.set("type", std::move(types[0]));
    if (types.size() > 1) schema.set("type", std::move(types));
    return Ok{};
  }

  Status check_count(const Json& schema, const char* name, const std::string& path,
                     std::int64_t most) const {
    const Json* count = schema.find(name);
    if (!count) return Ok{};
    if (!count->is_int() || count->as_int() < 0)
      return at(path, str(quoted(name), " needs an integer that is not negative"));
    if (count->as_int() > most)
      return at(path, str(quoted(name), " is ", count->as_int(), ", over the limit of ", most));
    return Ok{};
  }

  // The compiler has integers of 64 bits, and doubles: limits beyond them are brought within, so
  // that values are valid all the same.
  Status bound_numbers(Json& schema, const std::string& path) const {
    const bool is_integer = is_type(schema, "integer") && !is_type(schema, "number");
    const double most = is_integer ? 0x1p63 : std::numeric_limits<double>::max();
    for (const char* name : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
      const Json* limit = schema.find(name);
      if (!limit || !limit->is_number() || limit->is_int()) continue;
      const double value = limit->as_double();
      if (std::abs(value) < most) continue;
      const bool is_upper = std::string_view(name).ends_with("aximum");
      if ((value > 0) != is_upper)
        return at(path,
                  str(quoted(name), " is ", dump_json(*limit), ", beyond numbers of 64 bits"));
      constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
      schema.set(name,
                 is_integer ? Json(is_upper ? kMost : -kMost) : Json(is_upper ? most : -most));
    }
    return Ok{};
  }

  static bool has_big_number(const Json& value) {
    if (value.is_array()) return std::ranges::any_of(value.as_array(), has_big_number);
    if (!value.is_object()) return value.is_big_number();
    return std::ranges::any_of(value.as_object(),
                               [](const Json::Member& one) { return has_big_number(one.second); });
  }

  Status prepare_string(Json& schema, const std::string& path) const {
    GLINT_TRY_STATUS(check_count(schema, "minLength", path, kMaxMinLength));
    GLINT_TRY_STATUS(check_count(schema, "maxLength", path, kNoLimit));
    if (const Json* format = schema.find("format")) {
      if (!format->is_string())
        return at(path, str("\"format\" is ", format->kind(), " where a name belongs"));
      const bool alone =
          !schema.find("pattern") && !schema.find("minLength") && !schema.find("maxLength");
      const bool is_email = alone && *format == Json("email");
      const bool is_known = alone && contains(formats(), format->as_string());
      // Other formats, and those beside rules for the text, are annotations: they require nothing.
      if (is_email) schema.set("pattern", kEmail);
      if (!is_known) schema.set("format", "");
    }
    const Json* pattern = schema.find("pattern");
    if (!pattern) return Ok{};
    if (!pattern->is_string())
      return at(path, str("\"pattern\" is ", pattern->kind(), " where a text belongs"));
    std::string text(without_lookaheads(pattern->as_string()));
    const Json *least = schema.find("minLength"), *most = schema.find("maxLength");
    if (least || most) {
      std::optional<std::string> limited =
          pattern_of_length(text, least ? least->as_int() : 0, most ? most->as_int() : kNoLimit);
      if (!limited)
        return at(path, str(quoted(least ? "minLength" : "maxLength"),
                            " beside this \"pattern\" is not supported; say it in the "
                            "pattern, as in \"^[a-z]{2,9}$\""));
      text = *std::move(limited);
      std::erase_if(schema.as_object(), [](const Json::Member& one) {
        return one.first == "minLength" || one.first == "maxLength";
      });
    }
    Status small = check_expression_size(text);
    if (!small.ok()) return at(path, "\"pattern\": " + small.error().message);
    schema.set("pattern", whole_text_pattern(text, pattern_filler_));
    return Ok{};
  }

  Status prepare_array(Json& schema, const std::string& path) const {
    GLINT_TRY_STATUS(check_count(schema, "minItems", path, kMaxRepetitions));
    GLINT_TRY_STATUS(check_count(schema, "maxItems", path, kMaxRepetitions));
    const Json* items = schema.find("items");
    if (items && items->is_array()) {  // before 2020: one schema for each of the first items
      if (schema.find("prefixItems")) return at(path, "\"items\" is a list beside \"prefixItems\"");
      Json first = *items;
      const Json* rest = schema.find("additionalItems");
      schema.set("items", rest ? *rest : Json(false));
      schema.set("prefixItems", std::move(first));
    } else if (!items && !schema.find("prefixItems")) {
      schema.set("items", Json(Json::Object{}));
    }
    return Ok{};
  }

  Status prepare_object(Json& schema, const std::string& path) const {
    GLINT_TRY_STATUS(check_count(schema, "minProperties", path, kMaxRepetitions));
    GLINT_TRY_STATUS(check_count(schema, "maxProperties", path, kMaxRepetitions));
    const auto has = [&](const char* name) { return schema.find(name) != nullptr; };
    // There come none but those of the patterns, whether others may or not.
    if (has("patternProperties") && !has("properties") && schema.find("additionalProperties") &&
        schema.find("additionalProperties")->is_bool())
      std::erase_if(schema.as_object(),
                    [](const Json::Member& one) { return one.first == "additionalProperties"; });
    if (has("patternProperties") && (has("properties") || has("additionalProperties")))
      return at(path, "\"patternProperties\" beside other properties is not supported");
    list_names(schema);
    const Json* names = schema.find("propertyNames");
    if (names && has("properties") && *names != Json(Json::Object{{"type", "string"}}))
      return at(path, "\"propertyNames\" beside \"properties\" is not supported");
    if (!has("properties") && !has("patternProperties") && !has("unevaluatedProperties") &&
        !has("additionalProperties")) {
      schema.set("additionalProperties", true);
    }
    return add_required(schema, path);
  }

  // Required properties whose names are of an "enum": all of these are properties.
  void list_names(Json& schema) const {
    const Json *names = schema.find("propertyNames"), *other = schema.find("additionalProperties");
    if (!names || !names->is_object() || !schema.find("required") || schema.find("properties") ||
        schema.find("patternProperties") || (other && *other == Json(false)))
      return;
    std::string path;
    const Json* list = target(*names, path).find("enum");
    if (!list || !list->is_array()) return;
    const Json value = other && other->is_object() ? *other : Json(Json::Object{});
    Json properties = Json::Object{};
    for (const Json& name : list->as_array())
      if (name.is_string()) properties.set(name.as_string(), value);
    std::erase_if(schema.as_object(),
                  [](const Json::Member& one) { return one.first == "propertyNames"; });
    schema.set("properties", std::move(properties));
    schema.set("additionalProperties", false);
  }

  // Required properties that are not described are described as any other.
  Status add_required(Json& schema, const std::string& path) const {
    const Json* found = schema.find("required");
    if (!found) return Ok{};
    if (!found->is_array()) return at(path, "\"required\" needs a list of names");
    const Json required = *found;
    const Json* other = schema.find("additionalProperties");
    Json properties = schema.find("properties") ? *schema.find("properties") : Json(Json::Object{});
    if (!properties.is_object()) return at(path, "\"properties\" needs an object");
    for (const Json& name : required.as_array()) {
      if (!name.is_string()) return at(path, "\"required\" needs a list of names");
      if (properties.find(name.as_string())) continue;
      if (schema.find("patternProperties") || schema.find("propertyNames") ||
          (other && *other == Json(false))) {
        return at(path, str("required property ", quoted(name.as_string()), " is not described"));
      }
      const bool described = other && other->is_object();
      properties.set(name.as_string(), described ? *other : Json(Json::Object{}));
    }
    if (!properties.as_object().empty()) schema.set("properties", std::move(properties));
    return Ok{};
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
  std::vector<std::string> disjoint_;    // paths of schemas whose "oneOf" is as good as "anyOf"
  // Paths of objects, and what tells each from the others of its "oneOf".
  std::vector<std::pair<std::string, std::string>> tags_;
  bool refers_to_one_of_ = false;
};

}  // namespace

const Json* follow_pointer(const Json& root, std::string_view pointer) {
  const Json* at = &root;
  while (at && !pointer.empty()) {
    if (pointer.front() != '/') return nullptr;
    pointer.remove_prefix(1);
    const std::size_t end = std::min(pointer.find('/'), pointer.size());
    std::string key;
    for (std::size_t i = 0; i < end; ++i) {
      const bool escape = pointer[i] == '~' && i + 1 < end;
      key += !escape ? pointer[i] : pointer[++i] == '1' ? '/' : '~';
    }
    pointer.remove_prefix(end);
    at = at->find(key);
  }
  return at;
}

Status prepare_schema(Json& root, std::string_view pattern_filler) {
  if (dump_json(root).size() > kMaxBytes)
    return invalid(str("it is larger than ", with_commas(kMaxBytes), " bytes"));
  GLINT_TRY_STATUS(merge_all_of(root, kMaxBytes));
  return Preparer(root, pattern_filler).run();
}

}  // namespace glint
