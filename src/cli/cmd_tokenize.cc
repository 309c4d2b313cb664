// glint tokenize: text to token ids.
#include "cli/json_lines.h"
#include "cli/tokenizer_options.h"

namespace glint {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> texts;
  bool jsonl = false, add_special_tokens = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("MODEL", model,
      "directory of a checkpoint, an id in the Hugging Face cache, or a tokenizer.json");
    v("TEXT", texts, "texts, each answered by a line of ids; without any, stdin is one text");
    v("jsonl", jsonl, "read lines {\"text\": ...} from stdin and answer each {\"ids\": [...]}");
    v("add-special-tokens", add_special_tokens, "add what the tokenizer puts around a text");
  }
};

std::string joined(const std::vector<TokenId>& ids, std::string_view separator) {
  std::string out;
  for (const TokenId id : ids) {
    if (!out.empty()) out += separator;
    out += std::to_string(id);
  }
  return out;
}

Status run(const Options& options, Cli& cli) {
  GLINT_TRY(const Tokenizer tokenizer, open_tokenizer(options.model, cli));
  const EncodeOptions encode = {.add_special_tokens = options.add_special_tokens};
  if (options.jsonl) {
    if (!options.texts.empty()) return invalid("--jsonl reads texts from stdin; leave TEXT out");
    return answer_json_lines(cli.console, [&](const Json& line) -> Result<std::string> {
      const Json* text = line.find("text");
      if (!text || !text->is_string()) return invalid("expected {\"text\": \"...\"}");
      GLINT_TRY(const std::vector<TokenId> ids, tokenizer.encode(text->as_string(), encode));
      return "{\"ids\": [" + joined(ids, ", ") + "]}";
    });
  }
  std::vector<std::string> texts = options.texts;
  if (texts.empty()) {
    GLINT_TRY(texts.emplace_back(), read_stdin());
  }
  for (const std::string& text : texts) {
    GLINT_TRY(const std::vector<TokenId> ids, tokenizer.encode(text, encode));
    cli.console.print(joined(ids, " ") + "\n");
  }
  return Ok{};
}

}  // namespace

Command tokenize_command() {
  return make_command<Options>(
      {.name = "tokenize",
       .group = "Text",
       .summary = "text to token ids",
       .description = "Prints the ids of each text on a line, between blanks. Added tokens in the "
                      "text (<|user|>, <think> ...) are read as such; a truncation or padding that "
                      "the file sets is left off, as servers do. Bytes that are not UTF-8 count as "
                      "U+FFFD. With --jsonl a line that "
                      "cannot be answered is answered {\"error\": ...}, and the exit code stays 0.",
       .examples = {{"glint tokenize models/glm5-tiny 'Hello, world!'", "the ids of a text"},
                    {"echo '{\"text\": \"Hello\"}' | glint tokenize models/glm5-tiny --jsonl",
                     "as many texts as there are lines"}}},
      run);
}

}  // namespace glint
