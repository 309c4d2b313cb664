#include "cli/grpo_prompts.h"

#include <algorithm>

#include "base/str.h"
#include "cli/conversation.h"

namespace glint {
namespace {

// Refuses options that mean no row.
Status check_uses(const GrpoCommandOptions& options, const GrpoPrompts& prompts) {
  const auto any_row = [&](const auto& is_so) {
    return std::ranges::any_of(prompts.train, is_so) || std::ranges::any_of(prompts.eval, is_so);
  };
  if (!options.generate_tool_command.empty() &&
      !any_row([](const TrainPrompt& row) { return !row.tools.empty(); })) {
    return invalid("--generate-tool-command runs nothing: no row has \"tools\"");
  }
  if (!options.has_remote() || options.rm_type == kRemoteRule ||
      any_row([](const TrainPrompt& row) { return row.rm_type == kRemoteRule; })) {
    return Ok{};
  }
  return invalid(str(options.rm_url.empty() ? "--rm-command" : "--rm-url",
                     " grades nothing: --rm-type is ", options.rm_type,
                     ", and no row's metadata has {\"rm_type\": \"remote_rm\"}"));
}

}  // namespace

Status check_positions(const GrpoCommandOptions& options, const ModelConfig& config) {
  const auto check = [&](const char* flag, int answer) -> Status {
    if (answer < config.max_position_embeddings) return Ok{};
    return invalid(str("--", flag, "-max-response-len is ", answer, "; the model has ",
                       config.max_position_embeddings, " positions for prompt and answer"));
  };
  GLINT_TRY_STATUS(check("rollout", options.rollout_max_response_len));
  return options.eval_prompt_data.empty() ? Ok{} : check("eval", options.eval().max_tokens);
}

Result<GrpoPrompts> read_grpo_prompts(const GrpoCommandOptions& options, const std::string& dir,
                                      const ModelConfig& config) {
  PromptDataOptions data = {.path = {},
                            .dir = dir,
                            .input_key = options.input_key,
                            .label_key = options.label_key,
                            .apply_chat_template = options.apply_chat_template,
                            .has_remote = options.has_remote(),
                            .is_remote = options.rm_type == kRemoteRule,
                            .prepare = [&](const Json& messages, const Json& tools) {
                              return read_chat_messages(messages, tools, config.vocab_size);
                            }};
  const auto read = [&](const std::string& path, int answer) {
    data.path = path;
    data.max_prompt_tokens = static_cast<int>(config.max_position_embeddings) - answer;
    return read_train_prompts(data);
  };
  GLINT_TRY_STATUS(check_positions(options, config));
  GrpoPrompts prompts;
  GLINT_TRY(prompts.train, read(options.prompt_data, options.rollout_max_response_len));
  if (!options.eval_prompt_data.empty()) {
    GLINT_TRY(prompts.eval, read(options.eval_prompt_data, options.eval().max_tokens));
  }
  GLINT_TRY_STATUS(check_uses(options, prompts));
  return prompts;
}

}  // namespace glint
