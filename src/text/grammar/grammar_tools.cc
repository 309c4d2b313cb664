#include "text/grammar/grammar_tools.h"

#include <set>

#include "base/json_pointer.h"
#include "base/str.h"
#include "text/answer/tool_typing.h"
#include "text/grammar/grammar_all_of.h"
#include "text/grammar/grammar_markers.h"
#include "text/grammar/grammar_schema.h"
#include "text/template/jinja/characters.h"

namespace glint {
namespace {

constexpr std::string_view kEndValue = "</arg_value>";
constexpr int kMaxAlternatives = 1000;  // of one argument
constexpr std::size_t kMaxTools = 256;
constexpr std::string_view kCopy = "#/$defs/all";  // of the whole schema

Json const_string(std::string_view text) {
  return Json::Object{{"type", "const_string"}, {"value", text}};
}
// Any text up to the end of the tag around it.
Json any_text() { return Json::Object{{"type", "any_text"}}; }
// At most so many whole characters, without the beginning of that end.
Json bounded_text(std::int64_t most) {
  // Behind "<": a beginning of the rest of the end, and one with the character that breaks it off.
  constexpr std::string_view kEnd = kEndValue.substr(0, 6);  // all of it takes twice the memory
  std::string part, broken;
  for (std::size_t i = kEnd.size(); i-- > 1;) {
    const std::string next(1, kEnd[i]);
    const bool last = i + 1 == kEnd.size();
    broken = str("[^<", next, "]", last ? "" : str("|", next, "(?:", broken, ")"));
    if (!last) part = str("(?:", next, part, ")?");
  }
  const std::string again = str("<(?:", part, "<)*");
  const std::string text = str("(?:[^<]|", again, "(?:", broken, "))*(?:", again, part, ")?");
  return Json::Object{{"type", "grammar"},
                      {"grammar", str("root[max_chars=", most, "] ::= Regex(\"", text, "\")")}};
}
Json regex(std::string pattern) {
  return Json::Object{{"type", "regex"}, {"pattern", std::move(pattern)}};
}
Json several(const char* type, Json::Array elements) {
  return Json::Object{{"type", type}, {"elements", std::move(elements)}};
}
Json wrapped(const char* type, Json content) {
  return Json::Object{{"type", type}, {"content", std::move(content)}};
}
Json tag(std::string begin, Json content, std::string_view end) {
  return Json::Object{
      {"type", "tag"}, {"begin", std::move(begin)}, {"content", std::move(content)}, {"end", end}};
}

// Whether `name` is the same when it is read back: no marker in it, no blanks around it.
bool is_plain(std::string_view name) {
  return !name.empty() && name.find('<') == name.npos && jinja::strip(name) == name;
}

// Makes references lead to a schema's copy among its definitions; whether there are any.
bool redirect_references(Json& json) {
  bool any = false;
  if (json.is_array())
    for (Json& item : json.as_array()) any |= redirect_references(item);
  if (!json.is_object()) return any;
  for (auto& [name, value] : json.as_object()) {
    const bool refers = name == "$ref" && value.is_string();
    if (refers) value = str(kCopy, value.as_string().substr(1));
    any |= refers || redirect_references(value);
  }
  return any;
}

// The grammar of one function's arguments.
class Arguments {
 public:
  // `parameters` is a prepared schema, `given` what it was.
  Arguments(const Json& parameters, const Json& given) : root_(parameters), typing_(given) {}

  Result<Json> grammar() {
    for (const char* keyword :
         {"$ref", "anyOf", "oneOf", "allOf", "const", "enum", "patternProperties", "propertyNames",
          "minProperties", "maxProperties", "unevaluatedProperties"}) {
      if (root_.find(keyword))
        return invalid(str(quoted(keyword), " is not supported for all arguments together"));
    }
    const Json* type = root_.find("type");
    if (type && *type != Json("object")) return invalid("the arguments are no \"object\"");
    Json::Array elements;
    std::set<std::string_view> required;
    if (const Json* names = root_.find("required")) {
      for (const Json& name : names->as_array()) required.insert(name.as_string());
    }
    const Json* properties = root_.find("properties");
    if (properties && !properties->is_object()) return invalid("\"properties\" needs an object");
    if (properties) {
      for (const auto& [name, schema] : properties->as_object()) {
        if (!is_plain(name))
          return invalid(str("argument ", quoted(name), " has a name that no call can hold"));
        const bool is_json = typing_.is_json(typing_.argument(name));
        GLINT_TRY(Json value, value_grammar(schema, is_json).in("argument " + quoted(name)));
        Json argument =
            tag(str("<arg_key>", name, "</arg_key><arg_value>"), std::move(value), kEndValue);
        const bool needed = required.contains(name);
        elements.push_back(needed ? std::move(argument) : wrapped("optional", std::move(argument)));
      }
    }
    // Others only where nothing is described: what is described could come twice.
    if (elements.empty()) {
      GLINT_TRY(Json others, other_arguments());
      if (!others.is_null()) elements.push_back(std::move(others));
    }
    if (elements.empty()) return const_string("");
    return several("sequence", std::move(elements));
  }

 private:
  Result<Json> other_arguments() {
    const Json* other = root_.find("additionalProperties");
    if (other ? *other == Json(false) : root_.find("properties") != nullptr) return Json();
    Json value = any_text();
    if (other && other->is_object()) {
      GLINT_TRY(value, value_grammar(*other, typing_.is_json(typing_.other_arguments())));
    }
    Json rest = tag("</arg_key><arg_value>", std::move(value), kEndValue);
    Json key = regex("[a-zA-Z_][a-zA-Z0-9_-]*");
    Json::Array argument{const_string("<arg_key>"), std::move(key), std::move(rest)};
    return wrapped("star", several("sequence", std::move(argument)));
  }

  // Where an argument may be a text, the marker that ends it does so in strings of JSON, too.
  Result<Json> value_grammar(const Json& schema, bool is_json) {
    Json::Array alternatives;
    GLINT_TRY_STATUS(add_alternatives(schema, 0, alternatives));
    for (Json& alternative : alternatives) {
      if (alternative == any_text()) return alternative;
      if (!is_json && alternative.find("json_schema"))
        alternative.set("excludes", Json::Array{kEndValue});
    }
    if (alternatives.size() == 1) return std::move(alternatives[0]);
    return several("or", std::move(alternatives));
  }

  Status add_alternatives(const Json& schema, int depth, Json::Array& out) {
    if (depth > 16) return invalid("alternatives are nested too deeply");
    if (out.size() > kMaxAlternatives)
      return invalid(str("there are more than ", kMaxAlternatives, " alternatives"));
    if (schema.is_bool()) {
      if (!schema.as_bool()) return invalid("schema false has no values");
      out.push_back(any_text());
      return Ok{};
    }
    if (const Json* reference = schema.find("$ref")) {
      const std::string& pointer = reference->as_string();
      const Json* target = follow_pointer(root_, pointer.substr(1));
      // Preparing may have replaced the list whose items these were.
      if (!target) {
        const std::string told = "#" + pointer.substr(kCopy.size());
        return invalid(str("there is no ", quoted(told), " to refer to"));
      }
      return add_alternatives(*target, depth + 1, out);
    }
    if (const Json* value = schema.find("const")) return add_value(*value, out);
    if (const Json* values = schema.find("enum")) {
      for (const Json& value : values->as_array()) {
        GLINT_TRY_STATUS(add_value(value, out));
      }
      return Ok{};
    }
    for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
      const Json* options = schema.find(keyword);
      if (!options) continue;
      for (const Json& option : options->as_array()) {
        GLINT_TRY_STATUS(add_alternatives(option, depth + 1, out));
      }
      return Ok{};
    }
    const Json* type = schema.find("type");
    if (!type) {
      out.push_back(any_text());
      return Ok{};
    }
    if (type->is_string()) return add_type(schema, *type, out);
    for (const Json& name : type->as_array()) {
      GLINT_TRY_STATUS(add_type(schema, name, out));
    }
    return Ok{};
  }

  Status add_value(const Json& value, Json::Array& out) {
    const std::string text = argument_text(value);
    if (text.find(kEndValue) != text.npos)
      return invalid(str("value ", quoted(text), " holds a marker of calls"));
    out.push_back(const_string(text));
    return Ok{};
  }

  Status add_type(const Json& schema, const Json& type, Json::Array& out) {
    if (type == Json("string")) return add_string(schema, out);
    Json value = schema;
    value.set("type", type);
    if (const Json* found = root_.find("$defs")) value.set("$defs", *found);
    out.push_back(Json::Object{{"type", "json_schema"},
                               {"json_schema", std::move(value)},
                               {"max_whitespace_cnt", kMaxJsonBlanks}});
    return Ok{};
  }

  // Bare text cannot escape the marker that ends it, so the characters that must come at least
  // begin no marker. `format` is an annotation, as JSON Schema has it.
  Status add_string(const Json& schema, Json::Array& out) {
    const Json* min = schema.find("minLength");
    const Json* max = schema.find("maxLength");
    if (const Json* pattern = schema.find("pattern")) {
      if (min || max)
        return invalid("\"pattern\" and a limit of length together are not supported");
      out.push_back(regex(pattern->as_string()));
      return Ok{};
    }
    const std::int64_t least = min ? min->as_int() : 0;
    if (max && max->as_int() < least) return invalid("\"maxLength\" is less than \"minLength\"");
    Json rest = max ? bounded_text(max->as_int() - least) : any_text();
    if (least > 0) {
      Json first = regex(str(max ? "[^<]" : "(?:[^<]|<+[^/<])", "{", least, "}"));
      rest = several("sequence", {std::move(first), std::move(rest)});
    }
    out.push_back(std::move(rest));
    return Ok{};
  }

  const Json& root_;
  ToolTyping typing_;
};

// Schema generators give the arguments as a reference, or as parts of a whole. With them there are
// two copies of much.
Status merge_arguments(Json& parameters) { return merge_root(parameters, 2 * kMaxSchemaBytes); }

Result<Json> call_grammar(const ToolSpec& tool) {
  if (!is_plain(tool.name))
    return invalid(str("function ", quoted(tool.name), " has a name that no call can hold"));
  // A function that describes nothing takes nothing.
  const Json nothing = Json::Object{{"type", "object"}, {"additionalProperties", false}};
  Json parameters = tool.parameters.is_null() ? nothing : tool.parameters;
  GLINT_TRY_STATUS(merge_arguments(parameters));
  GLINT_TRY_STATUS(prepare_schema(parameters, kNoMarkers));
  // The schema of a value is a document of its own: it has the whole one as a definition.
  if (redirect_references(parameters)) {
    Json all = parameters;
    parameters.set("$defs", Json::Object{{"all", std::move(all)}});
  }
  GLINT_TRY(Json arguments, Arguments(parameters, tool.parameters).grammar());
  return tag("<tool_call>" + tool.name, std::move(arguments), "</tool_call>");
}

using CanBeExpressed = std::function<bool(const ToolSpec&)>;

Json loosened_argument(const ToolSpec& tool, const std::string& name, const Json& schema,
                       const CanBeExpressed& can_be_expressed) {
  Json alone = Json::Object{{"type", "object"}, {"properties", Json::Object{{name, schema}}}};
  for (const char* definitions : {"$defs", "definitions"})
    if (const Json* found = tool.parameters.find(definitions)) alone.set(definitions, *found);
  if (can_be_expressed({tool.name, std::move(alone)})) return schema;
  constexpr std::pair<SchemaType, const char*> kNames[] = {
      {kNullType, "null"},       {kIntegerType, "integer"}, {kNumberType, "number"},
      {kBooleanType, "boolean"}, {kObjectType, "object"},   {kArrayType, "array"},
      {kStringType, "string"}};
  const unsigned types = ToolTyping(tool.parameters).types(&schema);
  Json::Array names;
  for (const auto& [type, text] : kNames)
    if (types & type) names.push_back(text);
  return names.empty() ? Json(Json::Object{}) : Json(Json::Object{{"type", std::move(names)}});
}

}  // namespace

ToolSpec loosened_tool(const ToolSpec& given, const CanBeExpressed& can_be_expressed) {
  ToolSpec tool = given;
  (void)merge_arguments(tool.parameters);  // where it fails they stay as they were given
  const Json* properties = tool.parameters.find("properties");
  if (!properties || !properties->is_object()) return {tool.name, Json::Object{}};
  Json described = Json::Object{};
  for (const auto& [name, schema] : properties->as_object())
    if (is_plain(name))
      described.set(name, loosened_argument(tool, name, schema, can_be_expressed));
  ToolSpec loose = {tool.name,
                    Json::Object{{"type", "object"}, {"properties", std::move(described)}}};
  for (const char* kept : {"$defs", "definitions", "required"}) {
    const Json* found = tool.parameters.find(kept);
    if (!found) continue;
    Json before = loose.parameters;
    loose.parameters.set(kept, *found);
    if (!can_be_expressed(loose)) loose.parameters = std::move(before);
  }
  return loose;
}

Result<Json> tool_call_grammar(const std::vector<ToolSpec>& tools, const ToolCallRules& rules) {
  if (tools.empty()) return invalid("there are no functions to call");
  if (tools.size() > kMaxTools)
    return invalid(str("there are ", tools.size(), " functions, over the limit of ", kMaxTools));
  Json::Array calls;
  for (const ToolSpec& tool : tools) {
    GLINT_TRY(Json call, call_grammar(tool).in(str("parameters of function ", quoted(tool.name))));
    calls.push_back(std::move(call));
  }
  Json format;
  if (!rules.at_least_one) {
    format = Json::Object{{"type", "triggered_tags"},
                          {"triggers", Json::Array{"<tool_call>"}},
                          {"tags", std::move(calls)},
                          {"stop_after_first", !rules.parallel}};
  } else {
    Json any = calls.size() == 1 ? std::move(calls[0]) : several("or", std::move(calls));
    format = rules.parallel ? wrapped("plus", std::move(any)) : std::move(any);
  }
  return Json(Json::Object{{"type", "structural_tag"}, {"format", std::move(format)}});
}

}  // namespace glint
