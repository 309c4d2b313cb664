#include "server/chat_messages.h"

#include <algorithm>

#include "base/str.h"

namespace glint {
namespace {

constexpr std::size_t kMaxTools = 1024;

// "text" or "content" of a part that is text under one of its names.
const Json* text_of_part(const Json& part) {
  const Json* type = part.find("type");
  const std::string kind = type && type->is_string() ? type->as_string() : "";
  if (kind == "refusal") return part.find("refusal");
  if (kind == "text" || kind == "input_text" || kind == "output_text") return part.find("text");
  return nullptr;
}

// A content as text; nothing if the message has none.
std::optional<std::string> read_content(RequestReader& m) {
  const Json* content = m.find("content");
  if (!content) return {};
  std::string text;
  if (auto error = flatten_parts(*content, m.path("content"), text)) {
    m.fail("content", error->message);
    return {};
  }
  return text;
}

Json read_call(RequestReader& c) {
  std::string id, name;
  Json arguments;
  c.text("id", id);
  c.group("function", [&](RequestReader& f) {
    f.text("name", name);
    f.require("name");
    f.value("arguments", arguments, {"string", "object"});
  });
  c.require("function");
  if (arguments.is_string()) {
    std::optional<Json> parsed = parse_arguments(arguments.as_string());
    if (!parsed) {
      c.fail("function", str(c.path("function"),
                             ".arguments are no JSON object: ", quoted(arguments.as_string())));
      return {};
    }
    arguments = std::move(*parsed);
  }
  if (arguments.is_null()) arguments = Json::Object{};
  return call_json(id, name, std::move(arguments));
}

void read_assistant(RequestReader& m, Json& out) {
  std::string reasoning;
  m.text("reasoning", reasoning);
  m.text("reasoning_content", reasoning);
  if (!reasoning.empty()) out.set("reasoning_content", reasoning);
  Json::Array calls;
  m.list("tool_calls", [&](RequestReader& c) { calls.push_back(read_call(c)); });
  if (!calls.empty()) out.set("tool_calls", std::move(calls));
}

void read_message(RequestReader& m, ChatInput& chat) {
  std::string role;
  m.one_of("role", role, {"system", "developer", "user", "assistant", "tool", "function"});
  m.require("role");
  m.describe("content", Json::Object{{"anyOf", Json::Array{Json::Object{{"type", "string"}},
                                                           Json::Object{{"type", "array"}},
                                                           Json::Object{{"type", "null"}}}}});
  if (role == "developer") role = "system";
  if (role == "function") role = "tool";
  const std::optional<std::string> content = read_content(m);
  const bool has_calls = m.find("tool_calls") != nullptr;
  if (!content && m.reading() && role != "assistant" && m.ok())
    return m.fail("content", str(m.path("content"), " is missing"), "missing_required_parameter");
  Json out = Json::Object{{"role", role}, {"content", content.value_or("")}};
  if (!m.reading() || role == "assistant") read_assistant(m, out);
  std::string id, name;
  m.text("tool_call_id", id);
  m.text("name", name);
  if (role == "tool" && !id.empty()) out.set("tool_call_id", id);
  if (!name.empty()) out.set("name", name);
  if (m.reading() && m.ok() && role == "assistant" && !content && !has_calls &&
      !out.find("reasoning_content"))
    return m.fail("content", str(m.path("content"), " is missing, and so are tool_calls"));
  chat.messages.push_back(std::move(out));
}

// The fields of a function, which is added to `tools`; its description.
std::string read_function(RequestReader& f, const char* schema, ToolUse& tools) {
  ToolSpec& spec = tools.specs.emplace_back();
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

// "auto", "none", "required", or {"type": "function", "function": {"name": ...}}.
void read_tool_choice(RequestReader& r, ToolUse& tools) {
  const Json by_name =
      Json::Object{{"type", "object"},
                   {"properties", Json::Object{{"type", Json::Object{{"type", "string"}}},
                                               {"function", Json::Object{{"type", "object"}}}}}};
  r.describe(
      "tool_choice",
      Json::Object{
          {"anyOf",
           Json::Array{Json::Object{{"enum", Json::Array{"auto", "none", "required"}}}, by_name}}});
  const Json* choice = r.find("tool_choice");
  if (!choice) return;
  if (choice->is_object()) {
    const Json* function = choice->find("function");
    const Json* name = function ? function->find("name") : choice->find("name");
    if (!name || !name->is_string())
      return r.fail("tool_choice",
                    "tool_choice names no function; expected {\"type\": "
                    "\"function\", \"function\": {\"name\": ...}}");
    tools.choice = ToolUse::Choice::kNamed;
    tools.name = name->as_string();
    return;
  }
  std::string word;
  r.one_of("tool_choice", word, {"auto", "none", "required"});
  if (word == "none") tools.choice = ToolUse::Choice::kNone;
  if (word == "required") tools.choice = ToolUse::Choice::kRequired;
}

}  // namespace

std::optional<ApiError> flatten_parts(const Json& content, const std::string& path,
                                      std::string& out) {
  if (content.is_string()) {
    out += content.as_string();
    return {};
  }
  if (!content.is_array())
    return ApiError{.message = str(path, " is ", content.kind(), "; expected a text or parts"),
                    .param = path};
  for (std::size_t i = 0; i < content.as_array().size(); ++i) {
    const Json& part = content.as_array()[i];
    if (part.is_string()) {
      out += part.as_string();
      continue;
    }
    const Json* text = text_of_part(part);
    if (!text || !text->is_string()) {
      const Json* type = part.find("type");
      const std::string kind = type && type->is_string() ? quoted(type->as_string()) : "unknown";
      return ApiError{.message = str(path, "[", i, "] is of type ", kind,
                                     "; the model reads text only: expected {\"type\": \"text\", "
                                     "\"text\": ...}"),
                      .param = str(path, "[", i, "]")};
    }
    out += text->as_string();
  }
  return {};
}

ChatInput& begin_chat(ApiRequest& request, const ParseContext& context) {
  ChatInput& chat = request.chat.emplace();
  if (context.config.chat_template_kwargs.is_object())
    chat.kwargs = context.config.chat_template_kwargs;
  return chat;
}

void read_messages(RequestReader& r, ChatInput& chat) {
  r.list("messages", [&](RequestReader& m) { read_message(m, chat); });
  if (r.reading()) r.require("messages");
  if (r.reading() && r.ok() && chat.messages.empty())
    r.fail("messages", "messages is empty; expected at least one message");
}

void read_tools(RequestReader& r, ApiRequest& request) {
  r.list("tools", [&](RequestReader& t) { read_tool(t, request); });
  r.boolean("parallel_tool_calls", request.tools.parallel);
  read_tool_choice(r, request.tools);
  if (const Json* tools = r.find("tools"); tools && !tools->as_array().empty())
    request.chat->tools = *tools;
}

Json call_json(const std::string& id, const std::string& name, Json arguments) {
  return Json::Object{{"id", id},
                      {"type", "function"},
                      {"function", Json::Object{{"name", name}, {"arguments", arguments}}}};
}

std::optional<Json> parse_arguments(const std::string& text) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return Json::Object{};
  Result<Json> parsed = parse_json(text);
  if (!parsed.ok() || !parsed.value().is_object()) return {};
  return std::move(parsed).value();
}

void read_effort(RequestReader& r, const char* name, std::string& effort) {
  r.one_of(name, effort, {"none", "minimal", "low", "medium", "high", "xhigh", "max"});
}

void set_effort(const std::string& effort, Json& kwargs) {
  if (effort == "none") {
    kwargs.set("enable_thinking", false);
  } else if (!effort.empty()) {
    kwargs.set("reasoning_effort", effort);
  }
}

Json read_flat_tool(RequestReader& t, const char* schema, Json no_schema, ToolUse& tools) {
  const std::string description = read_function(t, schema, tools);
  const ToolSpec& spec = tools.specs.back();
  Json function = Json::Object{{"name", spec.name}};
  if (!description.empty()) function.set("description", description);
  function.set("parameters", spec.parameters.is_null() ? std::move(no_schema) : spec.parameters);
  return Json::Object{{"type", "function"}, {"function", std::move(function)}};
}

void check_tool_choice(RequestReader& r, ApiRequest& request) {
  if (!r.reading() || !r.ok()) return;
  ToolUse& tools = request.tools;
  if (tools.specs.size() > kMaxTools)
    return r.fail("tools", str("tools has ", tools.specs.size(), " items; at most ", kMaxTools,
                               " are allowed"));
  const bool forced =
      tools.choice == ToolUse::Choice::kRequired || tools.choice == ToolUse::Choice::kNamed;
  if (forced && tools.specs.empty())
    return r.fail("tool_choice", "tool_choice asks for a call, but tools is empty");
  if (forced && request.grammar)
    return r.fail("tool_choice",
                  "tool_choice asks for a call, which response_format or another constraint of the "
                  "request forbids");
  const auto named = [&](const ToolSpec& spec) { return spec.name == tools.name; };
  if (tools.choice == ToolUse::Choice::kNamed && std::ranges::none_of(tools.specs, named))
    return r.fail("tool_choice",
                  str("tool_choice names function ", quoted(tools.name), ", which tools lack"));
  const bool constrained = forced || (tools.choice == ToolUse::Choice::kAuto && !request.grammar &&
                                      !tools.specs.empty() && (tools.strict || !tools.parallel));
  if (!constrained) return;
  GrammarSpec spec = {.kind = GrammarSpec::Kind::kToolCalls,
                      .tools = tools.specs,
                      .at_least_one = forced,
                      .parallel = tools.parallel};
  if (tools.choice == ToolUse::Choice::kNamed) {
    std::erase_if(spec.tools, [&](const ToolSpec& t) { return !named(t); });
    spec.parallel = false;
  }
  request.grammar = std::move(spec);
}

}  // namespace glint
