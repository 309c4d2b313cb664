// The ranks of a server: processes of this program, which it starts, or which a launcher started.
#pragma once

#include <memory>
#include <optional>

#include "cli/model_options.h"
#include "cli/rank_env.h"
#include "cli/rank_options.h"
#include "runtime/rank_process.h"
#include "runtime/rank_processes.h"

namespace glint {

// The rank that a launcher made of this process, where the server is to have several ranks; none:
// it is alone, and starts the others itself. Fails where the launcher started another number.
Result<std::optional<RankEnv>> launched_rank(const RankOptions& options, const ShardOptions& shards,
                                             const Cli& cli);

// Starts the ranks above 0 of `resolved`, each on a backend as `options` has it, or waits for those
// of `launch`; `here` are on each machine. Where they are lost too often, the program ends with
// exit code 3.
Result<std::unique_ptr<RankProcesses>> start_ranks(const BackendOptions& options,
                                                   const ModelOptions& resolved, int here,
                                                   const std::optional<RankEnv>& launch);

// A rank above 0 of a launch, until its server ends.
Status follow_server(const RankEnv& env);

// Such a process; returns its exit code.
int run_rank();

// Each rank: its part, and what it has moved. `ranks` may be null: then `model` is the only one.
Json describe_ranks(const RankProcesses* ranks, LoadedModel& model);

}  // namespace glint
