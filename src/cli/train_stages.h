// The stages of a launch. Each can be repeated: what is done already stays as it is.
#pragma once

#include "cli/train_launch.h"

namespace glint {

// Checkpoint, data sets and, with --fp8-rollout, the copy in FP8, in the folders for all nodes:
// what is not there is fetched from the hub. Fails if the checkpoint is not of the model whose name
// it has.
Status prepare_run(const Launch& launch, Cli& cli);

// Copies the checkpoints to this node's own folder. A file is copied beside its name and renamed.
Status copy_to_node(const Launch& launch, Cli& cli);

// Fails, naming all of it, if the launch needs what is not built.
Status check_built(const Launch& launch);

// Trains, or goes on.
Status train_run(const Launch& launch, Cli& cli);

}  // namespace glint
