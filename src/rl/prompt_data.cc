#include "rl/prompt_data.h"

#include <algorithm>
#include <optional>

#include "base/json.h"
#include "base/line_file.h"
#include "base/parse_number.h"
#include "base/str.h"
#include "rl/rewards/reward.h"
#include "rl/tool_turns.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/tokenizer.h"
#include "train/data_row.h"

namespace glint {
namespace {

struct Slice {
  std::string path;
  std::int64_t begin = 0;
  std::optional<std::int64_t> end;
};

Result<std::optional<std::int64_t>> parse_bound(std::string_view text, std::string_view path) {
  if (text.empty()) return std::optional<std::int64_t>();
  const auto value = parse_number<std::int64_t>(text);
  if (!value) {
    return invalid(str(quoted(path), " is no slice of rows; expected FILE@[a:b] with integers"));
  }
  return value;
}

Result<Slice> parse_slice(const std::string& path) {
  const std::size_t at = path.rfind("@[");
  if (at == path.npos || !path.ends_with(']')) return Slice{.path = path, .end = {}};
  const std::string_view inside = std::string_view(path).substr(at + 2, path.size() - at - 3);
  const std::vector<std::string_view> bounds = split(inside, ':');
  if (bounds.size() != 2) {
    return invalid(str(quoted(path), " is no slice of rows; expected FILE@[a:b] with integers"));
  }
  GLINT_TRY(const std::optional<std::int64_t> begin, parse_bound(bounds[0], path));
  GLINT_TRY(const std::optional<std::int64_t> end, parse_bound(bounds[1], path));
  return Slice{.path = path.substr(0, at), .begin = begin.value_or(0), .end = end};
}

class RowReader {
 public:
  RowReader(const PromptDataOptions& options, Tokenizer tokenizer)
      : options_(options), tokenizer_(std::move(tokenizer)) {}

  Result<TrainPrompt> read(std::string_view line) {
    GLINT_TRY(const Json row, parse_data_row(line));
    const Json* const prompt = row.find(options_.input_key);
    if (!prompt) return invalid(str("has no ", quoted(options_.input_key)));
    TrainPrompt out;
    const Json* const tools = row.find("tools");
    if (tools) {
      GLINT_TRY(out.tools, read_tool_specs(*tools));
    }
    GLINT_TRY(out.template_kwargs, template_kwargs_of(row));
    GLINT_TRY(const std::string text, text_of(*prompt, tools, out.template_kwargs));
    GLINT_TRY(out.ids, tokenizer_.encode(text));
    if (out.ids.empty()) return invalid("the prompt has no token");
    if (static_cast<int>(out.ids.size()) > options_.max_prompt_tokens) {
      return invalid(str("the prompt has ", out.ids.size(), " tokens; at most ",
                         options_.max_prompt_tokens, " leave room for an answer"));
    }
    const Json* const metadata = row.find("metadata");
    const Json* const type = metadata ? metadata->find("rm_type") : nullptr;
    if (type && !type->is_null() && *type != Json("")) {
      if (!type->is_string()) {
        return invalid(str("metadata.rm_type is ", type->kind(), "; expected a text"));
      }
      out.rm_type = type->as_string();
      if (out.rm_type != kRemoteRule) {
        GLINT_TRY_STATUS(Reward::named(out.rm_type));
      } else if (!options_.has_remote) {
        return invalid("metadata.rm_type is remote_rm; give --rm-url URL or --rm-command CMD");
      }
    }
    const Json* const label = row.find(options_.label_key);
    if (label) out.given_label = *label;
    // Another program gets it as it is.
    if (out.rm_type.empty() ? options_.is_remote : out.rm_type == kRemoteRule) {
      const bool is_text = out.given_label.is_string();
      out.label = is_text ? out.given_label.as_string() : dump_json(out.given_label);
      return out;
    }
    if (!label) return invalid(str("has no ", quoted(options_.label_key)));
    GLINT_TRY(out.label, label_of(*label));
    return out;
  }

 private:
  Result<std::string> text_of(const Json& prompt, const Json* tools, Json kwargs) {
    if (prompt.is_string() && !options_.apply_chat_template) return prompt.as_string();
    if (!prompt.is_string() && !(prompt.is_array() && !prompt.as_array().empty())) {
      return invalid(str(quoted(options_.input_key), " is ", prompt.kind(),
                         "; expected a text or a list of messages"));
    }
    if (!template_) {
      GLINT_TRY(template_, ChatTemplate::open(options_.dir));
    }
    Json messages = prompt;
    if (prompt.is_string()) {
      messages = Json::Array{Json::Object{{"role", "user"}, {"content", prompt}}};
    }
    const Json given = tools ? *tools : Json();
    if (options_.prepare) {
      GLINT_TRY(messages, options_.prepare(messages, given));
    }
    kwargs.set("add_generation_prompt", true);
    return template_->render(messages, given, kwargs).in("the chat template");
  }

  Result<std::string> label_of(const Json& label) const {
    if (label.is_string()) return label.as_string();
    if (label.is_number()) return dump_json(label);
    return invalid(
        str(quoted(options_.label_key), " is ", label.kind(), "; expected a text or a number"));
  }

  const PromptDataOptions& options_;
  const Tokenizer tokenizer_;
  std::optional<ChatTemplate> template_;
};

}  // namespace

Result<std::vector<TrainPrompt>> read_train_prompts(const PromptDataOptions& options) {
  GLINT_TRY(const Slice slice, parse_slice(options.path));
  GLINT_TRY(const LineFile file, read_lines(slice.path));
  const std::int64_t count = std::ssize(file.lines);
  const auto place = [&](std::int64_t bound) {
    return std::clamp<std::int64_t>(bound < 0 ? bound + count : bound, 0, count);
  };
  const std::int64_t begin = place(slice.begin), end = place(slice.end.value_or(count));
  if (begin >= end)
    return invalid(str(options.path, " holds no prompt (", counted(count, "row"), ")"));

  GLINT_TRY(Tokenizer tokenizer, Tokenizer::open(options.dir));
  RowReader reader(options, std::move(tokenizer));
  std::vector<TrainPrompt> prompts;
  for (std::int64_t i = begin; i < end; ++i) {
    const LineFile::Line& line = file.lines[static_cast<std::size_t>(i)];
    GLINT_TRY(TrainPrompt prompt, reader.read(line.text).in(file.where(line)));
    prompt.line = line.number;
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace glint
