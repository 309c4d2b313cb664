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

// A format that is followed: by a grammar of the compiler, or by a pattern.
struct Format {
  std::string_view name;
  std::string pattern = {};
  std::int64_t least = 1, most = kNoLimit;  // characters that its texts have
};

// Groups of hexadecimal digits, with "::" for one or more of them; an IPv4 address may be the last
// two.
std::string ipv6_pattern(const std::string& ipv4) {
  const std::string group = "[0-9a-fA-F]{1,4}";
  std::string out = str("((", group, ":){7}", group, "|(", group, ":){6}", ipv4);
  for (int before = 0; before <= 7; ++before) {
    const int after = 7 - before;  // groups at most behind the "::"
    const std::string begin = before == 0 ? "::" : str('(', group, ":){", before, "}:");
    out += str('|', begin);
    if (after > 0) out += str('(', group, "(:", group, "){0,", after - 1, "})?");
    if (after > 1) out += str('|', begin, '(', group, ":){0,", after - 2, '}', ipv4);
  }
  return out + ')';
}

// Null: it requires nothing.
const Format* find_format(std::string_view name) {
  // Without quotes: the compiler's own grammar would break the JSON around them.
  static const std::string email =
      "[A-Za-z0-9_+-]+(\\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9]+(-[A-Za-z0-9]+)*"
      "(\\.[A-Za-z0-9]+(-[A-Za-z0-9]+)*)+";
  // Days that there are, and numbers without zeros before them: the compiler's own take others.
  static const std::string date =
      "([1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|"
      "(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|"
      "([1-9][0-9](0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26])00)-02-29)";
  static const std::string time =
      "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?"
      "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
  static const std::string octet = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  static const std::string ipv4 = str('(', octet, "\\.){3}", octet);
  static const std::string ipv6 = ipv6_pattern(ipv4);
  static const std::vector<Format> formats = {
      {"email", str('^', email, '$'), 5},
      {"date", str('^', date, '$'), 10, 10},
      {"date-time", str('^', date, 'T', time, '$'), 20},
      {"ipv4", str('^', ipv4, '$'), 7, 15},
      {"uuid", "", 36, 36},
      {"time", str('^', time, '$'), 9},
      {"duration"},
      {"ipv6", str('^', ipv6, '$'), 2, 45},
      {"hostname"},
      {"uri"},
      {"uri-reference", "", 0},
      {"uri-template", "", 0},
  };
  const auto found = std::ranges::find(formats, name, &Format::name);
  return found == formats.end() ? nullptr : &*found;
}

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

// All whole numbers are multiples of one; the compiler knows no other multiples within limits.
Status prepare_multiples(Json& schema, const std::string& path) {
  const Json* step = schema.find("multipleOf");
  if (!step || is_type(schema, "number")) return Ok{};
  if (*step == Json(1)) {
    drop(schema, {"multipleOf"});
    return Ok{};
  }
  for (const char* limit : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"})
    if (schema.find(limit))
      return schema_error(path, str("\"multipleOf\" beside ", quoted(limit), " is not supported"));
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
    const Format* known = find_format(format->as_string());
    const auto limit = [&](const char* name, std::int64_t otherwise) {
      const Json* found = schema.find(name);
      return found ? found->as_int() : otherwise;
    };
    // Others, and those beside rules for the text that they do not keep by themselves, are
    // annotations: they require nothing.
    const bool is_kept = known && !schema.find("pattern") &&
                         limit("minLength", 0) <= known->least &&
                         limit("maxLength", kNoLimit) >= known->most;
    if (is_kept) drop(schema, {"minLength", "maxLength"});
    if (is_kept && !known->pattern.empty()) schema.set("pattern", known->pattern);
    if (!is_kept || !known->pattern.empty()) schema.set("format", "");
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
    drop(schema, {"minLength", "maxLength"});
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
  // First items beyond those that may come say nothing.
  const Json* most = schema.find("maxItems");
  Json* first = schema.find("prefixItems");
  if (most && first && first->is_array() && std::ssize(first->as_array()) > most->as_int())
    first->as_array().resize(static_cast<std::size_t>(most->as_int()));
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

// Properties that must come, with names of an "enum": all of these are properties.
void list_names(Json& schema, const Json& root) {
  const Json *names = schema.find("propertyNames"), *other = schema.find("additionalProperties");
  if (!names || !names->is_object() || schema.find("properties") ||
      (!schema.find("required") && !schema.find("minProperties")) ||
      schema.find("patternProperties") || (other && *other == Json(false)))
    return;
  std::string path;
  const Json* list = target_of(root, *names, path).find("enum");
  if (!list || !list->is_array()) return;
  const Json value = other && other->is_object() ? *other : Json(Json::Object{});
  Json properties = Json::Object{};
  for (const Json& name : list->as_array())
    if (name.is_string()) properties.set(name.as_string(), value);
  drop(schema, {"propertyNames"});
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

// A name that is not required may come twice, and is one property then.
Status check_different(const Json& schema, bool is_open, const std::string& path) {
  const Json* least = schema.find("minProperties");
  if (!least) return Ok{};
  const Json *required = schema.find("required"), *described = schema.find("properties");
  const std::int64_t sure = required ? std::ssize(required->as_array()) : 0;
  const bool is_object = described && described->is_object();
  const std::int64_t all = is_object ? std::ssize(described->as_object()) : 0;
  if (least->as_int() <= (is_open ? std::max<std::int64_t>(sure, 1) : all)) return Ok{};
  return schema_error(path, str("\"minProperties\" is ", least->as_int(),
                                is_open ? ", and names that are not \"required\" may come twice"
                                        : ", more than the \"properties\" that are described"));
}

Status prepare_object(Json& schema, const Json& root, const std::string& path,
                      std::string_view pattern_filler) {
  GLINT_TRY_STATUS(check_count(schema, "minProperties", path, kMaxRepetitions));
  GLINT_TRY_STATUS(check_count(schema, "maxProperties", path, kMaxRepetitions));
  const auto has = [&](const char* name) { return schema.find(name) != nullptr; };
  // There come none but those of the patterns, whether others may or not.
  if (has("patternProperties") && !has("properties") && schema.find("additionalProperties") &&
      schema.find("additionalProperties")->is_bool())
    drop(schema, {"additionalProperties"});
  if (has("patternProperties") && (has("properties") || has("additionalProperties")))
    return schema_error(path, "\"patternProperties\" beside other properties is not supported");
  if (Json* names = schema.find("patternProperties"); names && names->is_object()) {
    GLINT_TRY_STATUS(check_patterns(*names, path));
    for (auto& [pattern, value] : names->as_object()) {
      GLINT_TRY_STATUS(prepare_pattern(pattern, pattern_filler, path, "patternProperties"));
    }
  }
  const auto others = [&] {
    return schema.find(has("additionalProperties") ? "additionalProperties"
                                                   : "unevaluatedProperties");
  };
  const bool is_empty = others() && *others() == Json(false) && !has("properties");
  if (is_empty && !has("patternProperties")) drop(schema, {"propertyNames"});
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
  GLINT_TRY_STATUS(add_required(schema, path));
  const bool is_open = has("patternProperties") || (others() && *others() != Json(false));
  return check_different(schema, is_open, path);
}

}  // namespace

Status prepare_types(Json& schema, const Json& root, const std::string& path,
                     std::string_view pattern_filler) {
  GLINT_TRY_STATUS(give_type(schema, path));
  GLINT_TRY_STATUS(bound_numbers(schema, path));
  GLINT_TRY_STATUS(prepare_multiples(schema, path));
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
