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

// As the model in `dir` reads them. Fails also where no row is what the options ask for: one with
// tools, or one that a remote rule grades.
Result<GrpoPrompts> read_grpo_prompts(const GrpoCommandOptions& options, const std::string& dir,
                                      const ModelConfig& config);

}  // namespace glint
