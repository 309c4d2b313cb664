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

// This program, for processes that are its ranks; and its exit code where ranks are lost.
inline constexpr const char* kProgram = "/proc/self/exe";
inline constexpr int kRanksLostExitCode = 3;

// A launched process, as the others meet it; and as one that is not the first comes to it.
Result<RankHello> hello_of(const RankEnv& env);
Result<AgentOptions> agent_of(const RankEnv& env);

// The rank that a launcher made of this process, where there are to be `ranks`; none: no launcher
// did. Fails where it started another number: "..., and `asked`".
Result<std::optional<RankEnv>> launched_rank(int ranks, const std::string& asked, const Cli& cli);

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
