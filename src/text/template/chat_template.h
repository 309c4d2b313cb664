// ChatTemplate: messages -> prompt, with the template that a checkpoint brings, as transformers'
// apply_chat_template finds and calls it.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/template/jinja/template.h"

namespace glint {

// The first of the names that `kwargs` (an object) may not have, because they are set beside it
// ("messages", "tools", "add_generation_prompt"); null if it has none.
const char* find_reserved_kwarg(const Json& kwargs);

class ChatTemplate {
 public:
  // Looks in a checkpoint directory for chat_template.jinja (and, where tools are given, the
  // tool_use.jinja of additional_chat_templates), else "chat_template" of tokenizer_config.json
  // (one, or a list of named ones), else, for the GLM family, takes the layout of GLM-5. Special
  // tokens (bos_token, eos_token ...) come from tokenizer_config.json or special_tokens_map.json.
  static Result<ChatTemplate> open(const std::string& dir);

  // A template without a checkpoint: from its file, or from its text.
  static Result<ChatTemplate> from_file(const std::string& path);
  static Result<ChatTemplate> parse(std::string_view source);
  // A text has a brace or a line break and is no file: the rule of vLLM.
  static Result<ChatTemplate> from_file_or_text(const std::string& given);

  // Takes the special tokens of a checkpoint directory, for a template from elsewhere.
  Status take_special_tokens(const std::string& dir);

  // Hands `messages`, `tools` (null: none) and the members of `kwargs` (an object or null; they go
  // before special tokens of the same name) to the template as they are, but for a message's
  // thought, which has both names "reasoning_content" and "thinking", under whichever of these or
  // "reasoning" it came: as transformers does. Thread-safe.
  Result<std::string> render(const Json& messages, const Json& tools, const Json& kwargs) const;

  // The text of the template (the default one of several).
  const std::string& source() const { return default_.source; }

 private:
  struct Named {
    std::string source;
    jinja::Template parsed;
  };

  static Result<Named> parse_named(std::string source);
  static Result<ChatTemplate> from_config(const Json& config);

  ChatTemplate(Named only) : default_(only), tool_use_(std::move(only)) {}

  Named default_, tool_use_;  // the latter renders where tools are given, be it an empty list
  Json special_tokens_ = Json(Json::Object{});
};

}  // namespace glint
