// Where a GRPO run is, as its checkpoints tell it, and which run may go on there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/grpo_options.h"
#include "rl/grpo.h"
#include "rl/prompt_data.h"
#include "rl/rollout_state.h"

namespace glint {

struct GrpoPosition {
  std::int64_t round = 0;  // rounds done
  std::uint64_t prompts_used = 0;
  std::vector<AnswerGroup> begun = {};  // answers that the next rollouts go on with
  std::optional<GrpoBatch> ahead = {};  // answers of the round that comes, where they are made so
  std::string base = {};                // the model that the run began with
  std::string reference = {};           // the checksum of its model, if there is one

  // The position that a checkpoint's state holds, without its models. Fails where `options` and
  // `prompts` are of another run.
  static Result<GrpoPosition> of(const Json& state, const GrpoCommandOptions& options,
                                 const std::vector<TrainPrompt>& prompts);
  // Fails where the run of `state` had other models than this one.
  Status check_models(const Json& state, const GrpoCommandOptions& options) const;

  // For a checkpoint.
  Json state(const GrpoCommandOptions& options, const std::vector<TrainPrompt>& prompts) const;
};

}  // namespace glint
