#include "text/template/chat_template.h"

#include <utility>

#include "base/file.h"
#include "base/str.h"
#include "text/template/glm5_template.h"
#include "text/tokenizer/tokenizer_fields.h"

namespace glint {
namespace {

constexpr std::size_t kMaxValues = 1'000'000;

// The JSON object in `dir`/`name`; an empty one if there is no such file.
Result<Json> read_object(const std::string& dir, const std::string& name) {
  const std::string path = dir + "/" + name;
  if (!is_present(path)) return Json(Json::Object{});
  GLINT_TRY(Json json, read_json_file(path, {.max_values = kMaxValues}));
  if (!json.is_object()) return invalid(str(path, " holds ", json.kind(), ", not an object"));
  return json;
}

Result<Json> special_tokens(const std::string& dir, const Json& tokenizer_config) {
  GLINT_TRY(const Json special_tokens_map, read_object(dir, "special_tokens_map.json"));
  Json tokens = Json(Json::Object{});
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                           "cls_token", "mask_token"}) {
    for (const Json* file : {&special_tokens_map, &tokenizer_config}) {
      const Json* token = file->find(name);
      if (token && token_text(*token).is_string()) tokens.set(name, token_text(*token));
    }
  }
  return tokens;
}

// Templates read a message's thought as "reasoning_content", those of gpt-oss as "thinking"; data
// has it under other names, too.
void name_thought(Json& message) {
  if (!message.is_object()) return;
  for (const char* const name : {"reasoning_content", "thinking", "reasoning"}) {
    const Json* const value = message.find(name);
    if (!value || value->is_null()) continue;
    const Json thought = *value;
    const Json* const thinking = message.find("thinking");
    Json first = thinking ? *thinking : thought;
    message.set("reasoning_content", thought);
    Json::Object& members = message.as_object();
    std::erase_if(members, [](const auto& member) { return member.first == "thinking"; });
    members.insert(members.begin(), {"thinking", std::move(first)});
    return;
  }
}

bool is_glm(const Json& config) {
  const Json* type = config.find("model_type");
  return type && type->is_string() && type->as_string().starts_with("glm");
}

}  // namespace

const char* find_reserved_kwarg(const Json& kwargs) {
  for (const char* name : {"messages", "tools", "add_generation_prompt"}) {
    if (kwargs.find(name)) return name;
  }
  return nullptr;
}

Result<ChatTemplate::Named> ChatTemplate::parse_named(std::string source) {
  GLINT_TRY(jinja::Template parsed, jinja::Template::parse(source));
  return Named{std::move(source), std::move(parsed)};
}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  GLINT_TRY(Named only, parse_named(std::string(source)));
  return ChatTemplate(std::move(only));
}

// "chat_template" of tokenizer_config.json: a text, or [{"name": "default", "template": "..."},
// ...].
Result<ChatTemplate> ChatTemplate::from_config(const Json& config) {
  if (config.is_string()) return parse(config.as_string());
  if (!config.is_array())
    return invalid(str("\"chat_template\" is ", config.kind(), ", not a text or a list"));
  const std::string* sources[2] = {};
  const char* const names[2] = {"default", "tool_use"};
  for (const Json& entry : config.as_array()) {
    const Json* name = entry.find("name");
    const Json* source = entry.find("template");
    if (!name || !name->is_string() || !source || !source->is_string()) {
      return invalid("\"chat_template\" is a list, but not of {\"name\": ..., \"template\": ...}");
    }
    for (int i = 0; i < 2; ++i) {
      if (name->as_string() == names[i]) sources[i] = &source->as_string();
    }
  }
  if (!sources[0]) return invalid("\"chat_template\" has no template that is named \"default\"");
  GLINT_TRY(ChatTemplate chat, parse(*sources[0]));
  if (sources[1]) {
    GLINT_TRY(chat.tool_use_, parse_named(*sources[1]));
  }
  return chat;
}

Result<ChatTemplate> ChatTemplate::from_file(const std::string& path) {
  GLINT_TRY(const std::string source, read_file(path));
  return parse(source).in(path);
}

Result<ChatTemplate> ChatTemplate::from_file_or_text(const std::string& given) {
  const bool is_text = given.find_first_of("{}\n") != std::string::npos && !file_exists(given);
  if (is_text) return parse(given);
  if (is_present(given)) return from_file(given);
  return not_found(str("there is no file ", quoted(given),
                       "; give one, or the text of a template, which has braces"));
}

Status ChatTemplate::take_special_tokens(const std::string& dir) {
  GLINT_TRY(const Json tokenizer_config, read_object(dir, "tokenizer_config.json"));
  GLINT_TRY(special_tokens_, special_tokens(dir, tokenizer_config));
  return Ok{};
}

Result<ChatTemplate> ChatTemplate::open(const std::string& dir) {
  GLINT_TRY(const Json tokenizer_config, read_object(dir, "tokenizer_config.json"));
  const std::string path = dir + "/chat_template.jinja";
  const Json* configured = tokenizer_config.find("chat_template");
  const auto find = [&]() -> Result<ChatTemplate> {
    if (is_present(path)) {
      GLINT_TRY(ChatTemplate chat, from_file(path));
      const std::string of_tools = dir + "/additional_chat_templates/tool_use.jinja";
      if (is_present(of_tools)) {
        GLINT_TRY(ChatTemplate tool_use, from_file(of_tools));
        chat.tool_use_ = std::move(tool_use.default_);
      }
      return chat;
    }
    if (configured && !configured->is_null()) {
      return from_config(*configured).in(dir + "/tokenizer_config.json");
    }
    GLINT_TRY(const Json config, read_object(dir, "config.json"));
    if (is_glm(config)) return parse(glm5_template()[0].bytes);
    return not_found(dir +
                     " has no chat template: neither chat_template.jinja nor \"chat_template\" in "
                     "tokenizer_config.json; give it one, or a raw prompt");
  };
  GLINT_TRY(ChatTemplate chat, find());
  GLINT_TRY(chat.special_tokens_, special_tokens(dir, tokenizer_config));
  return chat;
}

Result<std::string> ChatTemplate::render(const Json& messages, const Json& tools,
                                         const Json& kwargs) const {
  if (!messages.is_array()) return invalid(str("messages are ", messages.kind(), ", not a list"));
  if (!tools.is_null() && !tools.is_array())
    return invalid(str("tools are ", tools.kind(), ", not a list"));
  if (!kwargs.is_null() && !kwargs.is_object())
    return invalid(str("kwargs are ", kwargs.kind(), ", not an object"));
  Json variables = special_tokens_;
  Json named = messages;
  for (Json& message : named.as_array()) name_thought(message);
  variables.set("messages", std::move(named));
  variables.set("tools", tools);
  if (kwargs.is_object()) {
    for (const auto& [name, value] : kwargs.as_object()) variables.set(name, value);
  }
  return (tools.is_array() ? tool_use_ : default_).parsed.render(variables);
}

}  // namespace glint
