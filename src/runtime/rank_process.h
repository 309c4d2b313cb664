// A rank's process: the follower's side of RankProcesses.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/json.h"
#include "runtime/model_options.h"
#include "runtime/rank_command.h"

namespace glint {

// The only argument of a program that is to call run_rank_process().
inline constexpr const char* kRankProcessArgument = "--run-a-rank-for-a-server";

// The first message to it: `model`, which names its rank, on a backend that make_backend(`backend`,
// rank) makes, in groups as RankMembership::join() has it.
Json rank_start(const ModelOptions& model, const std::string& build, const Json& backend,
                const std::string& memory);
// Commands that are answered, with {checkpoint, way} or an error; so is the start, at last with
// {checkpoint, about}.
bool is_answered(RankCommand::Kind kind);

// The process, until its leader closes the stream. Returns the exit code: 2 if no RankProcesses
// started it, or if it cannot load its part, which the leader is told.
int run_rank_process(
    const std::string& build,
    const std::function<Result<std::unique_ptr<Backend>>(const Json&, int rank)>& make_backend);

}  // namespace glint
