// Sizes of miles' layout, as those of `glint train grpo`.
#pragma once

#include "cli/train_flags.h"

namespace glint {

// Adds the layout that the flags of `args` have to its options. There a group of sequences, of
// which each is on `context-parallel-size` ranks, is a shard a rank. Over several nodes ranks are
// processes.
Status add_layout(TranslatedTrainArgs& args);

// Names the sizes of GPUs among the words `given` as without meaning, where one process of a CPU
// trains.
void name_sizes(std::span<const std::string> given, TranslatedTrainArgs& args);

}  // namespace glint
