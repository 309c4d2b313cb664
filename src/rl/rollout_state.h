// Rollouts between two rounds as JSON, for checkpoints: what comes back is equal bit for bit.
#pragma once

#include "base/json.h"
#include "rl/grpo_batch.h"

namespace glint {

Json to_json(const std::vector<AnswerGroup>& groups);
Json to_json(const GrpoBatch& batch);

// Fail on what to_json() did not write.
Result<std::vector<AnswerGroup>> answer_groups_of(const Json& json);
Result<GrpoBatch> grpo_batch_of(const Json& json);

}  // namespace glint
