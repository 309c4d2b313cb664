// MemoryPlan: what one rank's memory is for, before there is a weight. The server, the benchmark,
// placement and `glint plan` take their numbers from here.
#pragma once

#include <array>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/release.h"
#include "runtime/loaded_model.h"
#include "runtime/step_trial.h"

namespace glint {

// Bytes.
struct MemoryPlan {
  std::array<std::int64_t, kNumTensorRoles> weights = {};
  std::int64_t replicated = 0;  // of the weights: what every rank of a stage holds as well
  std::int64_t page = 0;        // of the cache: kPageSize tokens of all of this rank's layers
  std::int64_t rope = 0;        // the rotary table
  StepMemory step = {};

  std::int64_t weight_bytes() const;
  // Besides weights and cache; of so many ranks together, one of which is the first.
  std::int64_t working_bytes(std::int64_t ranks = 1) const {
    return ranks * (rope + step.total()) - (ranks - 1) * step.results();
  }
};

// The plan of the rank that `trial` runs.
MemoryPlan plan_memory(StepTrial& trial, const ModelConfig& config, const TrialOptions& options,
                       const StepLimits& limits);

// Formats of matrices as a release has them, or as a checkpoint stores them (of experts, the
// first); a matrix that the checkpoint lacks or that is faulty counts as BF16.
std::function<WeightFormat(const ModelTensor&)> formats_of(const ModelConfig& config,
                                                           Release release);
std::function<WeightFormat(const ModelTensor&)> formats_of(const ModelConfig& config,
                                                           Checkpoint& checkpoint);

// The trial options of a loaded model, on its backend; `model` outlives what is made with them.
TrialOptions trial_options(LoadedModel& model);

// The plans of a rank of each stage, whose steps' memory is enough for any, and for what comes from
// all ranks to the first.
Result<std::vector<MemoryPlan>> plan_stages(const ModelConfig& config, TrialOptions options,
                                            const StepLimits& limits);

// The plan of a loaded model's rank; of a leader's, as of plan_stages(): the others reserve the
// same.
Result<MemoryPlan> plan_memory(LoadedModel& model, const StepLimits& limits);

// Makes room on all ranks for `num_pages` of cache and for passes within `limits`. Fails, with one
// sentence, if there is none.
Status reserve(LoadedModel& model, int num_pages, const StepLimits& limits);

}  // namespace glint
