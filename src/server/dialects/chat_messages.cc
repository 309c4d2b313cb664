#include "server/dialects/chat_messages.h"

#include "base/contains.h"
#include "base/str.h"

namespace glint {
namespace {

Json read_call(RequestReader& c, ArgumentsReader& reader) {
  std::string id, name;
  Json arguments;
  c.text("id", id);
  c.group("function", [&](RequestReader& f) {
    f.text("name", name);
    f.require("name");
    f.value("arguments", arguments, {"string", "object"});
    if (!arguments.is_string()) return;
    Result<Json> parsed = reader.read(arguments.as_string());
    if (!parsed.ok())
      return f.fail("arguments", str(f.path("arguments"), " are ", parsed.error().message));
    arguments = std::move(parsed).value();
  });
  c.require("function");
  if (arguments.is_null()) arguments = Json::Object{};
  return call_json(id, name, std::move(arguments));
}

void read_assistant(RequestReader& m, ArgumentsReader& reader, Json& out) {
  std::string reasoning;
  m.text("reasoning", reasoning);
  m.text("thinking", reasoning);
  m.text("reasoning_content", reasoning);
  if (!reasoning.empty()) out.set("reasoning_content", reasoning);
  Json::Array calls;
  m.list("tool_calls", [&](RequestReader& c) { calls.push_back(read_call(c, reader)); });
  if (!calls.empty()) out.set("tool_calls", std::move(calls));
}

void read_message(RequestReader& m, ArgumentsReader& reader, ChatInput& chat) {
  std::string role;
  m.one_of("role", role, {"system", "developer", "user", "assistant", "tool", "function"});
  m.require("role");
  m.describe("content", Json::Object{{"anyOf", Json::Array{Json::Object{{"type", "string"}},
                                                           Json::Object{{"type", "array"}},
                                                           Json::Object{{"type", "null"}}}}});
  if (role == "developer") role = "system";
  if (role == "function") role = "tool";
  const std::optional<std::string> content = read_parts(m, "content");
  const bool has_calls = m.find("tool_calls") != nullptr;
  const Json* given = m.reading() ? m.json()->find("content") : nullptr;
  // A thought that was cut has content null in our own answer, and a tool may give nothing back.
  const bool may_be_null = given && given->is_null() && (role == "assistant" || role == "tool");
  if (!content && !may_be_null && m.reading() && role != "assistant" && m.ok())
    return m.fail("content", str(m.path("content"), " is missing"), "missing_required_parameter");
  Json out = Json::Object{{"role", role}, {"content", content.value_or("")}};
  if (!m.reading() || role == "assistant") read_assistant(m, reader, out);
  std::string id, name;
  m.text("tool_call_id", id);
  m.text("name", name);
  if (role == "tool" && !id.empty()) out.set("tool_call_id", id);
  if (!name.empty()) out.set("name", name);
  if (m.reading() && m.ok() && role == "assistant" && !content && !may_be_null && !has_calls &&
      !out.find("reasoning_content"))
    return m.fail("content", str(m.path("content"), " is missing, and so are tool_calls"));
  chat.messages.push_back(std::move(out));
}

}  // namespace

std::optional<std::string> read_part(RequestReader& part, const std::string& type) {
  std::string title, text;
  const auto read_text = [&](RequestReader& r, const char* name) {
    r.text(name, text);
    r.require(name);
  };
  if (type == "refusal") {
    read_text(part, "refusal");
    return text;
  }
  if (contains({"text", "input_text", "output_text"}, type)) {
    read_text(part, "text");
    return text;
  }
  if (!contains({"document", "search_result"}, type)) return {};
  part.text("title", title);
  if (type == "search_result") {
    text = read_parts(part, "content").value_or("");
  } else {
    part.group("source", [&](RequestReader& s) {
      std::string kind;
      s.one_of("type", kind, {"text", "content"});
      s.require("type");
      if (kind == "text") return read_text(s, "data");
      text = read_parts(s, "content").value_or("");
    });
    part.require("source");
  }
  return str(title, title.empty() ? "" : "\n", text, "\n");
}

std::optional<std::string> read_parts(RequestReader& reader, const char* name) {
  const Json* content = reader.find(name);
  if (!content) return {};
  if (content->is_string()) return content->as_string();
  if (!content->is_array()) {
    reader.fail(name,
                str(reader.path(name), " is ", content->kind(), "; expected a text or parts"));
    return {};
  }
  std::string out;
  for (std::size_t i = 0; i < content->as_array().size() && reader.ok(); ++i) {
    const Json& part = content->as_array()[i];
    if (part.is_string()) {
      out += part.as_string();
      continue;
    }
    RequestReader item = reader.item(name, i);
    if (!reader.ok()) break;
    std::string type;
    item.text("type", type);
    item.require("type");
    if (const auto text = read_part(item, type)) {
      out += *text;
    } else {
      item.fail("type", str(item.path("type"), " is ", quoted(type),
                            "; the model reads text only: expected {\"type\": \"text\", "
                            "\"text\": ...}"));
    }
  }
  if (!reader.ok()) return {};
  return out;
}

ChatInput& begin_chat(ApiRequest& request, const ParseContext& context) {
  ChatInput& chat = request.chat.emplace();
  if (context.config.defaults.chat_template_kwargs.is_object())
    chat.kwargs = context.config.defaults.chat_template_kwargs;
  return chat;
}

void read_messages(RequestReader& r, ChatInput& chat) {
  ArgumentsReader reader;
  r.list("messages", [&](RequestReader& m) { read_message(m, reader, chat); });
  if (r.reading()) r.require("messages");
  if (r.reading() && r.ok() && chat.messages.empty())
    r.fail("messages", "messages is empty; expected at least one message");
}

Json call_json(const std::string& id, const std::string& name, Json arguments) {
  Json function = Json::Object{{"name", name}};
  function.set("arguments", std::move(arguments));
  Json call = Json::Object{{"id", id}, {"type", "function"}};
  call.set("function", std::move(function));
  return call;
}

std::size_t count_values(const Json& json) {
  std::size_t count = 1;
  if (json.is_array())
    for (const Json& item : json.as_array()) count += count_values(item);
  if (json.is_object())
    for (const auto& [key, value] : json.as_object()) count += count_values(value);
  return count;
}

Result<Json> ArgumentsReader::read(const std::string& text) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return Json(Json::Object{});
  GLINT_TRY(Json parsed, parse_json(text, {.max_values = values_left_, .max_members = values_left_})
                             .in("no JSON object"));
  if (!parsed.is_object()) return invalid("no JSON object: " + quoted(text));
  values_left_ -= count_values(parsed);
  return parsed;
}

}  // namespace glint
