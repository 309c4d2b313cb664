// The ranks of a server: processes of this program, which it starts, or which a launcher started.
#pragma once

#include <memory>
#include <optional>
#include <thread>

#include "cli/model_options.h"
#include "cli/rank_env.h"
#include "cli/rank_options.h"
#include "runtime/rank_process.h"
#include "runtime/rank_processes.h"

namespace glint {

// This program, for processes that are its ranks; and its exit code where ranks are lost.
inline constexpr const char* kProgram = "/proc/self/exe";
inline constexpr int kRanksLostExitCode = 3;

// This program: its version, and a checksum of its file, by which programs of one version differ.
Result<std::string> program_build();

// While it lives, this process gets SIGTERM once the program that has launched it is gone, which
// cannot send it any more.
std::jthread watch_launcher(const std::optional<RankEnv>& launch);

// A launched rank, as the others meet it; and as one that is not the first comes to it.
Result<RankHello> hello_of(const RankEnv& env);
Result<AgentOptions> agent_of(const RankEnv& env);

// The rank that a launcher made of this process, where there are to be `ranks`; none: no launcher
// did. Fails where it started another number: "..., and `asked`".
Result<std::optional<RankEnv>> launched_rank(int ranks, const std::string& asked, const Cli& cli);

// The process that `nodes` or a launcher made of this one, where the server is to have several
// ranks; none: it is alone, and starts the others itself. Fails where the ranks that are asked for
// cannot be dealt out to the processes; fit_launch() does that where these are fewer.
Result<std::optional<RankEnv>> launched_process(const LayoutOptions& layout,
                                                const NodeOptions& nodes, const Cli& cli);

// fit_shape() over all machines of `launch`, whose processes get their ranks; `threads` are of each
// machine. `is_whole`: ranks cannot share the weights.
Result<FittedShape> fit_launch(const LayoutOptions& layout, const ModelConfig& config, int threads,
                               bool is_whole, std::optional<RankEnv>& launch);

// Starts the ranks above 0 of `resolved`, each on a backend as `options` has it, or waits for those
// of other processes of `launch`; `here` are on each machine. Where they are lost too often, the
// program ends with exit code 3, after `before_end`, while which requests fail.
Result<std::unique_ptr<RankProcesses>> start_ranks(const BackendOptions& options,
                                                   const ModelOptions& resolved, int here,
                                                   const std::optional<RankEnv>& launch,
                                                   std::function<void()> before_end);

// The ranks of a process that is not the first of a launch, until their server ends.
Status follow_server(const RankEnv& env);

// Runs a rank in this process until its server ends; returns the exit code.
int run_rank();

// Each rank: its part, and what it has moved. `ranks` may be null: then `model` is the only one.
Json describe_ranks(const RankProcesses* ranks, LoadedModel& model);

}  // namespace glint
