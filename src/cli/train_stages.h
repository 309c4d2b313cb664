// The stages of a launch. Each can be repeated: what is done already stays as it is.
#pragma once

#include "cli/train_launch.h"

namespace glint {

// Checkpoint and data sets, in the folders for all nodes: what is not there is fetched from the
// hub. Fails if the checkpoint is not of the model whose name it has, or not the reference model.
Status prepare_run(const Launch& launch, Cli& cli);

// Copies the checkpoint to this node's own folder. A file is copied beside its name and renamed.
Status copy_to_node(const Launch& launch, Cli& cli);

// Fails, naming all of it, if the launch needs what is not built.
Status check_built(const Launch& launch);

// The number of this process among those that train. Fails where GPUs of several nodes are to train
// and no process was started for each, or these do not know the run's name, or the launch prepares,
// which processes of one node would do at once; and where the machine lacks GPUs to train on.
Result<int> rank_of_launch(const Launch& launch, bool prepares, const Cli& cli);

// Trains, or goes on.
Status train_run(const Launch& launch, Cli& cli);

}  // namespace glint
