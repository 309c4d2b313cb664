// The ranks of a server: processes of this program.
#pragma once

#include <memory>

#include "cli/model_options.h"
#include "runtime/rank_process.h"
#include "runtime/rank_processes.h"

namespace glint {

// Starts the ranks above 0 of `resolved`, on the backend of `options` with its threads each. Where
// they are lost too often, the program ends with exit code 3.
Result<std::unique_ptr<RankProcesses>> start_ranks(const RunOptions& options,
                                                   const ModelOptions& resolved);

// Such a process; returns its exit code.
int run_rank();

// Each rank: its part, and what it has moved. `ranks` may be null: then `model` is the only one.
Json describe_ranks(const RankProcesses* ranks, LoadedModel& model);

}  // namespace glint
