#include "server/dialects/tool_fields.h"

#include <algorithm>

#include "base/contains.h"
#include "base/str.h"

namespace glint {
namespace {

// More are not held to their schemas, unless something asks for it.
constexpr std::size_t kMaxLenientTools = 256;

// The fields of a function, which is added to `tools`; its description.
std::string read_function(RequestReader& f, const char* schema, ToolUse& tools) {
  ToolSpec& spec = tools.specs.own().emplace_back();
  std::string description;
  bool strict = false;
  f.text("name", spec.name);
  f.require("name");
  if (spec.name.empty() || spec.name.find_first_of(" \t\r\n<>") != std::string::npos)
    f.fail("name", str(f.path("name"), " is ", quoted(spec.name),
                       "; it may not be empty or hold blanks, < or >"));
  f.text("description", description);
  f.value(schema, spec.parameters, {"object"});
  f.boolean("strict", strict);
  tools.strict = tools.strict || strict;
  return description;
}

void read_tool(RequestReader& t, ApiRequest& request) {
  std::string type = "function";
  t.one_of("type", type, {"function"});
  t.group("function", [&](RequestReader& f) { read_function(f, "parameters", request.tools); });
  t.require("function");
}

void set_choice(const std::string& word, ToolUse& tools) {
  if (word == "none") tools.choice = ToolUse::Choice::kNone;
  if (word == "required") tools.choice = ToolUse::Choice::kRequired;
}

// {"mode": "auto" | "required", "tools": [{"type": "function", "name": ...}, ...]}
void read_allowed(RequestReader& a, ToolUse& tools) {
  std::string mode = "auto";
  a.one_of("mode", mode, {"auto", "required"});
  set_choice(mode, tools);
  a.list("tools", kMaxTools, [&](RequestReader& t) {
    std::string type = "function", name;
    t.one_of("type", type, {"function"});
    t.text("name", name);
    t.group("function", [&](RequestReader& f) { f.text("name", name); });
    if (name.empty()) t.fail("name", str(t.path("name"), " is missing"));
    tools.allowed.push_back(std::move(name));
  });
  a.require("tools");
  if (tools.allowed.empty())
    a.fail("tools", str(a.path("tools"), " is empty; expected at least one"));
}

void read_choice_object(RequestReader& c, ToolUse& tools) {
  std::string type = "function";
  c.one_of("type", type, {"function", "allowed_tools"});
  if (type == "allowed_tools") {
    // OpenAI's chat has a group of the same name around these.
    if (c.find("allowed_tools")) {
      c.group("allowed_tools", [&](RequestReader& a) { read_allowed(a, tools); });
    } else {
      read_allowed(c, tools);
    }
    return;
  }
  tools.choice = ToolUse::Choice::kNamed;
  c.text("name", tools.name);
  c.group("function", [&](RequestReader& f) { f.text("name", tools.name); });
  if (c.ok() && tools.name.empty())
    c.fail("name", str("tool_choice names no function; expected {\"type\": \"function\", "
                       "\"function\": {\"name\": ...}}"));
}

bool has_name(const std::vector<ToolSpec>& tools, const std::string& name) {
  return std::ranges::any_of(tools, [&](const ToolSpec& tool) { return tool.name == name; });
}

// The functions that may be called.
Shared<std::vector<ToolSpec>> callable(const ToolUse& tools) {
  if (tools.choice != ToolUse::Choice::kNamed && tools.allowed.empty()) return tools.specs;
  std::vector<ToolSpec> out;
  for (const ToolSpec& tool : tools.specs) {
    const bool named = tools.choice != ToolUse::Choice::kNamed || tool.name == tools.name;
    const bool allowed = tools.allowed.empty() || contains(tools.allowed, tool.name);
    if (named && allowed) out.push_back(tool);
  }
  return out;
}

}  // namespace

void read_tool_choice(RequestReader& r, ToolUse& tools) {
  const auto has_type = [](const char* type) { return Json(Json::Object{{"type", type}}); };
  const Json object = Json::Object{
      {"type", "object"},
      {"properties",
       Json::Object{{"type", Json::Object{{"enum", Json::Array{"function", "allowed_tools"}}}},
                    {"function", has_type("object")},
                    {"name", has_type("string")},
                    {"allowed_tools", has_type("object")},
                    {"mode", has_type("string")},
                    {"tools", has_type("array")}}}};
  r.describe(
      "tool_choice",
      Json::Object{
          {"anyOf",
           Json::Array{Json::Object{{"enum", Json::Array{"auto", "none", "required"}}}, object}}});
  const Json* choice = r.find("tool_choice");
  if (!choice) return;
  if (choice->is_object())
    return r.group("tool_choice", [&](RequestReader& c) { read_choice_object(c, tools); });
  std::string word;
  r.one_of("tool_choice", word, {"auto", "none", "required"});
  set_choice(word, tools);
}

void read_tools(RequestReader& r, ApiRequest& request) {
  r.list("tools", kMaxTools, [&](RequestReader& t) { read_tool(t, request); });
  r.boolean("parallel_tool_calls", request.tools.parallel);
  read_tool_choice(r, request.tools);
  if (const Json* tools = r.find("tools"); tools && !tools->as_array().empty())
    request.chat->tools = *tools;
}

Json read_flat_tool(RequestReader& t, const char* schema, Json no_schema, ToolUse& tools) {
  const std::string description = read_function(t, schema, tools);
  const ToolSpec& spec = (*tools.specs).back();
  Json function = Json::Object{{"name", spec.name}};
  if (!description.empty()) function.set("description", description);
  function.set("parameters", spec.parameters.is_null() ? std::move(no_schema) : spec.parameters);
  return Json::Object{{"type", "function"}, {"function", std::move(function)}};
}

void check_tool_choice(RequestReader& r, ApiRequest& request) {
  if (!r.reading() || !r.ok()) return;
  const ToolUse& tools = request.tools;
  const bool named = tools.choice == ToolUse::Choice::kNamed;
  const bool forced = tools.choice == ToolUse::Choice::kRequired || named;
  if (forced && tools.specs.empty())
    return r.fail("tool_choice", "tool_choice asks for a call, but tools is empty");
  std::vector<std::string> names = tools.allowed;
  if (named) names.push_back(tools.name);
  for (const std::string& name : names)
    if (!has_name(tools.specs, name))
      return r.fail("tool_choice",
                    str("tool_choice names function ", quoted(name), ", which tools lack"));
  if (tools.specs.empty() || tools.choice == ToolUse::Choice::kNone) return;
  GrammarSpec calls = {.kind = GrammarSpec::Kind::kToolCalls,
                       .tools = callable(tools),
                       .at_least_one = forced || request.grammar,
                       .parallel = tools.parallel && !named,
                       .lenient = !forced && !tools.strict};
  const bool asked_for = !calls.lenient || !calls.parallel || calls.at_least_one;
  if (!asked_for && calls.tools.size() > kMaxLenientTools) return;
  if (!forced && request.grammar) calls.instead = std::move(request.grammar);
  request.grammar = std::make_shared<const GrammarSpec>(std::move(calls));
}

}  // namespace glint
