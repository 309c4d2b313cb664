// The prompts that a GRPO run learns from, and those of its evaluations.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/grpo_options.h"
#include "model/config.h"
#include "rl/prompt_data.h"

namespace glint {

struct GrpoPrompts {
  std::vector<TrainPrompt> train = {}, eval = {};
};

// Fails where an answer as long as it may be leaves no position for its prompt.
Status check_positions(const GrpoCommandOptions& options, const ModelConfig& config);

// The prompts as the model in `dir` reads them. Fails also where the options ask for rows with
// tools, or for rows that a remote rule grades, and there are none.
Result<GrpoPrompts> read_grpo_prompts(const GrpoCommandOptions& options, const std::string& dir,
                                      const ModelConfig& config);

}  // namespace glint
