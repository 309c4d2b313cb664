#include "cli/prompt_file.h"

#include <algorithm>
#include <optional>

#include "base/json.h"
#include "base/line_file.h"
#include "base/str.h"
#include "cli/conversation.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {
namespace {

class Reader {
 public:
  explicit Reader(const PromptFile& file) : file_(file) {}

  Result<Prompts> read() {
    GLINT_TRY(const LineFile file, read_lines(file_.path));
    std::optional<bool> is_jsonl;
    for (const LineFile::Line& line : file.lines) {
      if (!is_jsonl) {
        const auto first = parse_json(line.text);
        is_jsonl = (first.ok() && first.value().is_object()) || file_.path.ends_with(".jsonl") ||
                   file_.path.ends_with(".json");
      }
      Result<std::vector<TokenId>> read = *is_jsonl ? parse_line(line.text) : encode(line.text);
      GLINT_TRY(auto ids, std::move(read).in(file.where(line)));
      add(std::move(ids), line.number);
    }
    if (prompts_.ids.empty()) return invalid(str(file_.path, " holds no prompt"));
    return std::move(prompts_);
  }

 private:
  void add(std::vector<TokenId> ids, int line) {
    const std::size_t most = static_cast<std::size_t>(file_.max_tokens);
    prompts_.num_cut += ids.size() > most;
    for (std::size_t at = 0; at < ids.size(); at += most) {
      prompts_.ids.emplace_back(ids.begin() + at, ids.begin() + std::min(at + most, ids.size()));
      prompts_.lines.push_back(line);
    }
  }

  Result<std::vector<TokenId>> parse_line(std::string_view line) {
    GLINT_TRY(const Json json, parse_json(line));
    const Json *text = json.find("text"), *messages = json.find("messages");
    const Json* ids = json.find("ids");
    if ((text != nullptr) + (messages != nullptr) + (ids != nullptr) != 1)
      return invalid("expected an object with one of \"text\", \"messages\" and \"ids\"");
    if (messages) return render(*messages, json.find("tools"));
    if (ids) return check_ids(*ids);
    if (!text->is_string()) return invalid(str("\"text\" is ", text->kind(), "; expected a text"));
    return encode(text->as_string());
  }

  Result<std::vector<TokenId>> check_ids(const Json& ids) const {
    if (!ids.is_array()) return invalid(str("\"ids\" is ", ids.kind(), "; expected a list"));
    std::vector<TokenId> out;
    for (const Json& id : ids.as_array()) {
      if (!id.is_int() || id.as_int() < 0 || id.as_int() >= file_.vocab) {
        return invalid(str(quoted(dump_json(id), 40), " is not in the vocabulary of ", file_.vocab,
                           " tokens"));
      }
      out.push_back(static_cast<TokenId>(id.as_int()));
    }
    return out;
  }

  Result<std::vector<TokenId>> render(const Json& messages, const Json* tools) {
    GLINT_TRY(const ChatInput chat, read_chat(messages, tools ? *tools : Json(), file_.vocab));
    if (!template_) {
      GLINT_TRY(template_, ChatTemplate::open(file_.dir));
    }
    const bool answered = *chat.messages.back().find("role") == Json("assistant");
    const Result<std::string> prompt = template_->render(
        chat.messages, chat.tools, Json::Object{{"add_generation_prompt", !answered}});
    if (!prompt.ok()) return Error(prompt.error()).in("the chat template");
    return encode(prompt.value());
  }

  Result<std::vector<TokenId>> encode(std::string_view text) {
    if (!tokenizer_) {
      GLINT_TRY(tokenizer_, Tokenizer::open(file_.dir));
    }
    return tokenizer_->encode(text);
  }

  const PromptFile& file_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<ChatTemplate> template_;
  Prompts prompts_;
};

}  // namespace

Result<Prompts> read_prompts(const PromptFile& file) {
  GLINT_CHECK(file.max_tokens >= 1, "a prompt has a token");
  return Reader(file).read();
}

}  // namespace glint
