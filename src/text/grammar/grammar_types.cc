#include "text/grammar/grammar_types.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/contains.h"
#include "base/cut_text.h"
#include "base/str.h"
#include "text/grammar/grammar_keywords.h"
#include "text/grammar/grammar_markers.h"
#include "text/grammar/grammar_pattern.h"

namespace glint {
namespace {

constexpr std::int64_t kMaxRepetitions = 5000;  // of items or properties
constexpr std::int64_t kMaxMinLength = 256;     // the most that strings can be asked for
constexpr std::int64_t kNoLimit = 1 << 30;

// Formats that have a grammar of their own.
const Keywords& formats() {
  static const Keywords names = {"date", "time",          "date-time",   "duration",
                                 "ipv4", "ipv6",          "hostname",    "uuid",
                                 "uri",  "uri-reference", "uri-template"};
  return names;
}

// E-mail addresses without quotes: the compiler's own grammar would break the JSON around them.
constexpr const char* kEmail =
    "^[A-Za-z0-9_+-]+(\\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9]+(-[A-Za-z0-9]+)*"
    "(\\.[A-Za-z0-9]+(-[A-Za-z0-9]+)*)+$";

Status give_type(Json& schema, const std::string& path) {
  if (const Json* type = schema.find("type")) {
    if (type->is_string() || type->is_array()) return Ok{};
    return schema_error(path, str("\"type\" is ", type->kind(), " where a name belongs"));
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
                   std::int64_t most) {
  const Json* count = schema.find(name);
  if (!count) return Ok{};
  if (!count->is_int() || count->as_int() < 0)
    return schema_error(path, str(quoted(name), " needs an integer that is not negative"));
  if (count->as_int() > most)
    return schema_error(path,
                        str(quoted(name), " is ", count->as_int(), ", over the limit of ", most));
  return Ok{};
}

// The compiler knows no other limits of whole numbers than whole ones.
Json whole_limit(double value, std::string_view name) {
  const bool is_upper = name.ends_with("aximum"), is_exclusive = name.starts_with("exclusive");
  return Json(
      static_cast<std::int64_t>(is_upper == is_exclusive ? std::ceil(value) : std::floor(value)));
}

// The compiler has integers of 64 bits, and doubles: limits beyond them are brought within, so
// that values are valid all the same.
Status bound_numbers(Json& schema, const std::string& path) {
  for (const char* name :
       {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"}) {
    const Json* found = schema.find(name);
    if (found && !found->is_number())
      return schema_error(path,
                          str(quoted(name), " is ", found->kind(), " where a number belongs"));
  }
  const bool is_integer = is_type(schema, "integer") && !is_type(schema, "number");
  const double most = is_integer ? 0x1p63 : std::numeric_limits<double>::max();
  for (const char* name : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
    const Json* limit = schema.find(name);
    if (!limit || !limit->is_number() || limit->is_int()) continue;
    const double value = limit->as_double();
    if (std::abs(value) < most) {
      if (is_integer) schema.set(name, whole_limit(value, name));
      continue;
    }
    const bool is_upper = std::string_view(name).ends_with("aximum");
    if ((value > 0) != is_upper)
      return schema_error(path, str(quoted(name), " is ", cut_text(dump_json(*limit), 80),
                                    ", beyond numbers of 64 bits"));
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    schema.set(name, is_integer ? Json(is_upper ? kMost : -kMost) : Json(is_upper ? most : -most));
  }
  return Ok{};
}

// Between two limits the compiler's numbers have at most six decimals; where there is no such
// number, its grammar is that of the empty text.
Status check_numbers_between(const Json& schema, const std::string& path) {
  constexpr double kSteps = 1e6, kNone = std::numeric_limits<double>::infinity();
  const auto limit = [&](const char* name, double otherwise) {
    const Json* found = schema.find(name);
    return found && found->is_number() ? found->as_double() : otherwise;
  };
  const double above = limit("exclusiveMinimum", -kNone), below = limit("exclusiveMaximum", kNone);
  const double least = std::max(limit("minimum", -kNone), above);
  const double most = std::min(limit("maximum", kNone), below);
  const auto is_within = [&](double number) {
    return number >= least && number <= most && number > above && number < below;
  };
  constexpr double kMostExact = 0x1p53 / kSteps;  // steps beyond are closer than doubles
  if (least == -kNone || most == kNone) return Ok{};
  if (std::abs(least) > kMostExact && (least < most || is_within(least))) return Ok{};
  const double before = std::floor(least * kSteps);
  for (const int step : {0, 1, 2})
    if (is_within((before + step) / kSteps)) return Ok{};
  return schema_error(path, "no number of six decimals is between its limits");
}

Status prepare_pattern(std::string& pattern, std::string_view filler, const std::string& path,
                       std::string_view keyword) {
  const Status checked = check_expression(pattern);
  if (!checked.ok()) {
    return schema_error(path, str(quoted(keyword), ": ", checked.error().message));
  }
  if (filler == kNoMarkers) pattern = without_markers(pattern);
  return Ok{};
}

Status prepare_string(Json& schema, const std::string& path, std::string_view pattern_filler) {
  GLINT_TRY_STATUS(check_count(schema, "minLength", path, kMaxMinLength));
  GLINT_TRY_STATUS(check_count(schema, "maxLength", path, kNoLimit));
  if (const Json* format = schema.find("format")) {
    if (!format->is_string())
      return schema_error(path, str("\"format\" is ", format->kind(), " where a name belongs"));
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
    return schema_error(path, str("\"pattern\" is ", pattern->kind(), " where a text belongs"));
  std::string text(without_lookaheads(pattern->as_string()));
  const Json *least = schema.find("minLength"), *most = schema.find("maxLength");
  if (least || most) {
    std::optional<std::string> limited =
        pattern_of_length(text, least ? least->as_int() : 0, most ? most->as_int() : kNoLimit);
    if (!limited)
      return schema_error(path, str(quoted(least ? "minLength" : "maxLength"),
                                    " beside this \"pattern\" is not supported; say it in the "
                                    "pattern, as in \"^[a-z]{2,9}$\""));
    text = *std::move(limited);
    std::erase_if(schema.as_object(), [](const Json::Member& one) {
      return one.first == "minLength" || one.first == "maxLength";
    });
  }
  GLINT_TRY_STATUS(prepare_pattern(text, pattern_filler, path, "pattern"));
  schema.set("pattern", whole_text_pattern(text, pattern_filler));
  return Ok{};
}

Status prepare_array(Json& schema, const std::string& path) {
  GLINT_TRY_STATUS(check_count(schema, "minItems", path, kMaxRepetitions));
  GLINT_TRY_STATUS(check_count(schema, "maxItems", path, kMaxRepetitions));
  const Json* items = schema.find("items");
  if (items && items->is_array()) {  // before 2020: one schema for each of the first items
    if (schema.find("prefixItems"))
      return schema_error(path, "\"items\" is a list beside \"prefixItems\"");
    Json first = *items;
    const Json* rest = schema.find("additionalItems");
    schema.set("items", rest ? *rest : Json(false));
    schema.set("prefixItems", std::move(first));
  } else if (!items && !schema.find("prefixItems")) {
    schema.set("items", Json(Json::Object{}));
  }
  return Ok{};
}

// The compiler lets a name match one of the patterns, the standard lets all hold that match.
Status check_patterns(const Json& names, const std::string& path) {
  const Json::Object& all = names.as_object();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (all[i].second == all[k].second || begin_differently(all[i].first, all[k].first)) continue;
      return schema_error(path, str("\"patternProperties\": one name may match both ",
                                    quoted(all[k].first), " and ", quoted(all[i].first),
                                    "; let them begin with other letters, as in \"^a_\" and "
                                    "\"^b_\""));
    }
  }
  return Ok{};
}

// Required properties whose names are of an "enum": all of these are properties.
void list_names(Json& schema, const Json& root) {
  const Json *names = schema.find("propertyNames"), *other = schema.find("additionalProperties");
  if (!names || !names->is_object() || !schema.find("required") || schema.find("properties") ||
      schema.find("patternProperties") || (other && *other == Json(false)))
    return;
  std::string path;
  const Json* list = target_of(root, *names, path).find("enum");
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
Status add_required(Json& schema, const std::string& path) {
  const Json* found = schema.find("required");
  if (!found) return Ok{};
  if (!found->is_array()) return schema_error(path, "\"required\" needs a list of names");
  const Json required = *found;
  const Json* other = schema.find("additionalProperties");
  Json properties = schema.find("properties") ? *schema.find("properties") : Json(Json::Object{});
  if (!properties.is_object()) return schema_error(path, "\"properties\" needs an object");
  for (const Json& name : required.as_array()) {
    if (!name.is_string()) return schema_error(path, "\"required\" needs a list of names");
    if (properties.find(name.as_string())) continue;
    if (schema.find("patternProperties") || schema.find("propertyNames") ||
        (other && *other == Json(false))) {
      return schema_error(path,
                          str("required property ", quoted(name.as_string()), " is not described"));
    }
    const bool described = other && other->is_object();
    properties.set(name.as_string(), described ? *other : Json(Json::Object{}));
  }
  if (!properties.as_object().empty()) schema.set("properties", std::move(properties));
  return Ok{};
}

Status prepare_object(Json& schema, const Json& root, const std::string& path,
                      std::string_view pattern_filler) {
  GLINT_TRY_STATUS(check_count(schema, "minProperties", path, kMaxRepetitions));
  GLINT_TRY_STATUS(check_count(schema, "maxProperties", path, kMaxRepetitions));
  const auto has = [&](const char* name) { return schema.find(name) != nullptr; };
  // There come none but those of the patterns, whether others may or not.
  if (has("patternProperties") && !has("properties") && schema.find("additionalProperties") &&
      schema.find("additionalProperties")->is_bool())
    std::erase_if(schema.as_object(),
                  [](const Json::Member& one) { return one.first == "additionalProperties"; });
  if (has("patternProperties") && (has("properties") || has("additionalProperties")))
    return schema_error(path, "\"patternProperties\" beside other properties is not supported");
  if (Json* names = schema.find("patternProperties"); names && names->is_object()) {
    GLINT_TRY_STATUS(check_patterns(*names, path));
    for (auto& [pattern, value] : names->as_object()) {
      GLINT_TRY_STATUS(prepare_pattern(pattern, pattern_filler, path, "patternProperties"));
    }
  }
  const Json* other =
      schema.find(has("additionalProperties") ? "additionalProperties" : "unevaluatedProperties");
  const bool is_empty = other && *other == Json(false) && !has("properties");
  if (is_empty && !has("patternProperties"))
    std::erase_if(schema.as_object(),
                  [](const Json::Member& one) { return one.first == "propertyNames"; });
  list_names(schema, root);
  const Json* names = schema.find("propertyNames");
  if (names && *names != Json(Json::Object{{"type", "string"}}))
    for (const char* beside : {"properties", "patternProperties"})
      if (has(beside))
        return schema_error(path,
                            str("\"propertyNames\" beside ", quoted(beside), " is not supported"));
  if (!has("properties") && !has("patternProperties") && !has("unevaluatedProperties") &&
      !has("additionalProperties")) {
    schema.set("additionalProperties", true);
  }
  return add_required(schema, path);
}

}  // namespace

Status prepare_types(Json& schema, const Json& root, const std::string& path,
                     std::string_view pattern_filler) {
  GLINT_TRY_STATUS(give_type(schema, path));
  GLINT_TRY_STATUS(bound_numbers(schema, path));
  if (is_type(schema, "number")) {
    GLINT_TRY_STATUS(check_numbers_between(schema, path));
  }
  if (is_type(schema, "string")) {
    GLINT_TRY_STATUS(prepare_string(schema, path, pattern_filler));
  }
  if (is_type(schema, "array")) {
    GLINT_TRY_STATUS(prepare_array(schema, path));
  }
  return is_type(schema, "object") ? prepare_object(schema, root, path, pattern_filler)
                                   : Status(Ok{});
}

}  // namespace glint
