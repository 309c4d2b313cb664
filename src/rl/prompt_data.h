// Prompts to learn from: rows of a JSONL file, each with its label.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/types.h"
#include "text/answer/delta_parser.h"

namespace glint {

// The `rm_type` of rows that another program grades.
inline constexpr std::string_view kRemoteRule = "remote_rm";

struct TrainPrompt {
  std::vector<TokenId> ids = {};
  std::string label = {};
  Json given_label = {};             // as the row has it
  std::string rm_type = {};          // of this row alone; empty: as for all
  std::vector<ToolSpec> tools = {};  // that the prompt offers
  Json template_kwargs = {};         // of its chat template
  int line = 0;                      // of the file, from 1
};

struct PromptDataOptions {
  // A file, or some of its rows: FILE@[a:b], FILE@[:b], FILE@[a:], as Python slices a list.
  std::string path;
  std::string dir;  // of the checkpoint, for its tokenizer and chat template
  std::string input_key = "prompt", label_key = "label";
  // A prompt that is a text becomes one message of a user; else it is read as it stands, special
  // tokens as such. Lists of messages always go through the template.
  bool apply_chat_template = false;
  int max_prompt_tokens = 0;  // longer prompts are refused
  bool has_remote = false;    // another program grades rows of remote_rm
  bool is_remote = false;     // and those without an rm_type
  // Makes messages with `tools` (null: none) ready for the template; empty: they are.
  std::function<Result<Json>(const Json& messages, const Json& tools)> prepare = {};
};

// Rows {"prompt": text or messages, "label": text or number (for another program: anything, or
// nothing), "metadata": {"rm_type": R}, "tools": functions, "chat_template_kwargs": what the
// template gets beside messages and tools}; blank lines are skipped, other members ignored. A wrong
// row is named by its line.
Result<std::vector<TrainPrompt>> read_train_prompts(const PromptDataOptions& options);

}  // namespace glint
