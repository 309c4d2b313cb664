// glint template: conversations to prompts.
#include "base/file.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/hub_model.h"
#include "cli/json_lines.h"
#include "text/template/chat_template.h"

namespace glint {
namespace {

struct Options {
  std::string model;
  bool jsonl = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("MODEL", model,
      "directory of a checkpoint, an id in the Hugging Face cache, or a template (.jinja)");
    v("jsonl", jsonl,
      "read lines {\"messages\": [...], \"tools\": [...]|null, \"kwargs\": {...}} from stdin and "
      "answer each {\"text\": ...}");
  }
};

Result<ChatTemplate> open_template(const std::string& model, const Cli& cli) {
  if (file_exists(model)) return ChatTemplate::from_file(model);
  GLINT_TRY(const std::string dir, model_dir(model, cli, ModelPart::kTemplate));
  return ChatTemplate::open(dir);
}

Status run(const Options& options, Cli& cli) {
  Result<ChatTemplate> chat = open_template(options.model, cli);
  if (!options.jsonl) {
    if (!chat.ok()) return std::move(chat).take_error();
    cli.console.print(chat.value().source());
    return Ok{};
  }
  // A template that does not compile fails on every line, as it would if it were compiled for each;
  // one that cannot be read fails at once.
  if (!chat.ok() && chat.error().code == ErrorCode::kNotFound) return std::move(chat).take_error();
  return answer_json_lines(cli.console, [&](const Json& line) -> Result<std::string> {
    if (!chat.ok()) return Error(chat.error());
    const Json* messages = line.find("messages");
    const Json* tools = line.find("tools");
    const Json* kwargs = line.find("kwargs");
    if (!messages)
      return invalid("expected {\"messages\": [...], \"tools\": [...]|null, \"kwargs\": {...}}");
    GLINT_TRY(const std::string text,
              chat.value().render(*messages, tools ? *tools : Json(), kwargs ? *kwargs : Json()));
    std::string answer = "{\"text\": ";
    append_json_string(answer, text);
    return answer + "}";
  });
}

}  // namespace

Command template_command() {
  return make_command<Options>(
      {.name = "template",
       .group = "Text",
       .summary = "conversations to prompts, through a chat template",
       .description =
           "Renders messages with the checkpoint's chat template, or with a template file, as "
           "transformers does: what it prints is what the model would read. Messages, tools and "
           "kwargs (add_generation_prompt, enable_thinking ...) reach the template as they are; "
           "thoughts may be called reasoning_content, thinking or reasoning. A line that cannot be "
           "answered is answered {\"error\": ...}, and the exit code stays 0. "
           "Without --jsonl it prints the template.",
       .examples = {{"echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}' | "
                     "glint template models/glm5-tiny --jsonl",
                     "the prompt of a conversation a line"},
                    {"glint template models/glm5-tiny", "the template itself"}}},
      run);
}

}  // namespace glint
