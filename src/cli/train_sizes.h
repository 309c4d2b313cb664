// Sizes of miles' layout, as those of `glint train grpo`.
#pragma once

#include <climits>

#include "cli/train_flags.h"
#include "plan/train_plan.h"

namespace glint {

// A flag's value; `otherwise` where it is not given.
Result<int> whole_number(const TranslatedTrainArgs& args, const std::string& flag, int otherwise,
                         int most = INT_MAX);
// Only the layout and the GPUs of a node of a plan.
Result<TrainPlanOptions> read_sizes(const TranslatedTrainArgs& args);

// Adds the layout to the options of `args`. There a group of sequences, of which each is on
// `context-parallel-size` ranks, is a replica a rank. Over several nodes ranks are processes.
Status divide_among_ranks(const TrainPlanOptions& sizes, TranslatedTrainArgs& args);

// Names the sizes of GPUs among the words `given` as without meaning, where one process of a CPU
// trains.
void name_sizes(std::span<const std::string> given, TranslatedTrainArgs& args);

}  // namespace glint
