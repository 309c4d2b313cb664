// A rank's process: the follower's side of RankProcesses.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "comm/connect_ranks.h"
#include "runtime/loaded_model.h"

namespace glint {

// The only argument of a program that is to call run_rank_process().
inline constexpr const char* kRankProcessArgument = "--run-a-rank-for-a-server";
// Descriptors of such a process: its stream, and, of one that its leader started, the memory of its
// group.
inline constexpr int kRankStreamFd = 3, kRankMemoryFd = 4;
// It shows so often that it lives.
inline constexpr int kRankBeatMilliseconds = 200;
// Ranks that run connect to each other in this time.
inline constexpr int kRankMeetingSeconds = 30;

// The first message to it: `model` of rank `rank`, on a backend that make_backend(`backend`, rank)
// makes, in a group over the memory that lies at path `memory`, or where that is empty over
// sockets: then it answers {port}, and the next message is a RankMeeting.
Json rank_start(const ModelOptions& model, int rank, const std::string& build, const Json& backend,
                const std::string& memory);
// Passes that are answered, with {} or an error; so is the start, at last with {checkpoint, about}.
bool is_answered(RankPass::Kind kind);
// Between its answers it shows that it lives, with {collectives}: what they have moved so far.
inline constexpr const char* kBeat = "collectives";

// Where the ranks of a group over sockets find each other.
struct RankMeeting {
  std::vector<RankAddress> ranks;
  std::uint64_t group = 0;
};
Json to_json(const RankMeeting& meeting);

// The process, until its leader closes the stream. Returns the exit code: 2 if no RankProcesses
// started it, or if it cannot load its part, which the leader is told.
int run_rank_process(
    const std::string& build,
    const std::function<Result<std::unique_ptr<Backend>>(const Json&, int rank)>& make_backend);

}  // namespace glint
