// glint detokenize: token ids to text.
#include <algorithm>
#include <limits>

#include "base/str.h"
#include "cli/id_file.h"
#include "cli/json_lines.h"
#include "cli/tokenizer_options.h"

namespace glint {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> ids;
  bool jsonl = false, skip_special_tokens = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("MODEL", model,
      "directory of a checkpoint, an id in the Hugging Face cache, or a tokenizer.json");
    v("ID", ids, "ids of one text; without any, each line of stdin holds those of a text");
    v("jsonl", jsonl, "read lines {\"ids\": [...]} from stdin and answer each {\"text\": ...}");
    v("skip-special-tokens", skip_special_tokens, "leave special tokens out");
  }
};

// An id past those of a tokenizer is past the vocabulary, however large it is.
Result<TokenId> to_token(std::int64_t value) {
  if (value < 0) return invalid(str(value, " is no token id"));
  return static_cast<TokenId>(std::min<std::int64_t>(value, std::numeric_limits<TokenId>::max()));
}

Status append_ids(std::string_view text, std::vector<TokenId>& ids) {
  GLINT_TRY(const std::vector<std::int64_t> values, parse_ids(text));
  for (const std::int64_t value : values) {
    GLINT_TRY(const TokenId id, to_token(value));
    ids.push_back(id);
  }
  return Ok{};
}

Result<std::vector<TokenId>> ids_of_line(const Json& line) {
  const Json* list = line.find("ids");
  if (!list || !list->is_array()) return invalid("expected {\"ids\": [...]}");
  std::vector<TokenId> ids;
  for (const Json& item : list->as_array()) {
    const bool huge = item.is_big_number() && item.as_double() > 0;
    if (!item.is_int() && !huge) {
      return invalid(
          str("expected token ids, found ", item.is_number() ? dump_json(item) : item.kind()));
    }
    GLINT_TRY(const TokenId id,
              to_token(huge ? std::numeric_limits<std::int64_t>::max() : item.as_int()));
    ids.push_back(id);
  }
  return ids;
}

Status run(const Options& options, Cli& cli) {
  GLINT_TRY(const Tokenizer tokenizer, open_tokenizer(options.model, cli));
  if (options.jsonl) {
    if (!options.ids.empty()) return invalid("--jsonl reads ids from stdin; leave ID out");
    return answer_json_lines(cli.console, [&](const Json& line) -> Result<std::string> {
      GLINT_TRY(const std::vector<TokenId> ids, ids_of_line(line));
      std::string out = "{\"text\": ";
      append_json_string(out, tokenizer.decode(ids, options.skip_special_tokens));
      return out + "}";
    });
  }
  std::vector<std::vector<TokenId>> sequences;
  if (!options.ids.empty()) {
    sequences.emplace_back();
    for (const std::string& id : options.ids) GLINT_TRY_STATUS(append_ids(id, sequences.back()));
  } else {
    GLINT_TRY(std::string text, read_stdin());
    if (text.ends_with('\n')) text.pop_back();
    for (const std::string_view line : split(text, '\n')) {
      std::vector<TokenId>& ids = sequences.emplace_back();
      GLINT_TRY_STATUS(append_ids(line, ids).in(str("line ", sequences.size(), " of stdin")));
    }
  }
  for (const std::vector<TokenId>& ids : sequences) {
    cli.console.print(tokenizer.decode(ids, options.skip_special_tokens) + "\n");
  }
  return Ok{};
}

}  // namespace

Command detokenize_command() {
  return make_command<Options>(
      {.name = "detokenize",
       .group = "Text",
       .summary = "token ids to text",
       .description = "Prints the text of the ids. Bytes that are not UTF-8 become U+FFFD, ids "
                      "past the vocabulary nothing. With --jsonl a line that cannot be answered is "
                      "answered {\"error\": ...}, and the exit code stays 0.",
       .examples = {{"glint detokenize models/glm5-tiny 1969 11 814 478 0", "the text of some ids"},
                    {"glint tokenize models/glm5-tiny Hello | glint detokenize models/glm5-tiny",
                     "there and back"}}},
      run);
}

}  // namespace glint
