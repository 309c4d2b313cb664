// Ranks that are processes: how their leader starts them, gives them groups and watches that they
// live, and how they take their place. Those of a server (rank_processes.h) and those of training
// are such.
//
//   leader: RankPeer, LeaderGroups <-beats, messages-> a rank: LeaderConnection, RankMembership
//
// Messages are the caller's, but for beats, and for the ports of ranks over sockets.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/rank_memory.h"
#include "runtime/rank_sockets.h"
#include "runtime/rank_wire.h"

namespace glint {

// Descriptors of a rank that its leader started: its stream, and the memory of its groups.
inline constexpr int kRankStreamFd = 3, kRankMemoryFd = 4;
// A rank shows so often that it lives, with {collectives}: what they have moved so far.
inline constexpr int kRankBeatMilliseconds = 200;
inline constexpr const char* kBeat = "collectives";
// A rank that shows no life for so long, or ends within a message, is lost.
inline constexpr int kRankSilenceSeconds = 5;

// An outcome as a message: {} is a success, {error, code} a failure; and back.
Json outcome_message(const Status& outcome);
Status outcome_in(const Json& message);

Result<Json> receive_message(RankStream& stream);

// Counts the losses of ranks of the last ten minutes, with one more now.
class Faults {
 public:
  int add(std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());

 private:
  std::deque<std::chrono::steady_clock::time_point> times_;
};

// A rank, as its leader knows it.
struct RankPeer {
  pid_t pid = 0;  // 0: another's
  RankStream stream = {};
};

// Starts `command`, with the descriptors above; `memory` may be none. `prints`: to our standard
// output, else to our standard error. What a terminal signals is not signalled to it.
Result<RankPeer> spawn_rank(const std::vector<std::string>& command, const OwnedFd& memory,
                            bool prints);

// The end of a rank's stream, its life and its memory.
void kill_rank(const RankPeer& peer);
void await_end(const RankPeer& peer);

// A leader hears a rank: more may come, or it has told all, or nothing comes any more.
enum class Heard { kMore, kLast, kNothing };
// Calls hear(i) where peer i tells something, until all have told all, or goes_on() is false: then
// the answer is empty. Else it says which rank, numbered from `first` on, has ended, or has shown
// no life for kRankSilenceSeconds in which this process ran.
std::string watch_ranks(std::span<RankPeer* const> peers, int first,
                        const std::function<Heard(std::size_t)>& hear,
                        const std::function<bool()>& goes_on);

// The groups of a layout's ranks, as who makes them has them: in memory that processes of one
// machine share, or over sockets.
class LeaderGroups {
 public:
  // `on_lost` is called where a socket's peer, another rank than the first, is gone.
  static Result<std::unique_ptr<LeaderGroups>> make(const MeshShape& shape, bool share_memory,
                                                    std::function<void(int rank)> on_lost);

  bool share_memory() const { return memory_.has_value(); }
  const OwnedFd& memory_file() const { return memory_file_; }
  // Where a rank finds the memory: one that spawn_rank() started, or another's; empty over sockets.
  std::string memory_path(bool spawned) const;
  // Over sockets: connects the ranks. port_of_rank(i) is what peer i tells first. Fails at once
  // where end() is called.
  Status connect(std::span<RankPeer* const> peers,
                 const std::function<Result<int>(std::size_t)>& port_of_rank);

  // The first rank's, if it is this process.
  Mesh mesh();
  Comm& all();
  // A rank's so far; `moved` is its last beat, which says it where groups are not in memory.
  Json traffic(int rank, const Json& moved) const;

  // No call waits any more; and groups that have not begun, in other memory than ranks of before
  // may still touch. Nobody of this process may be in a call then.
  void end() const;
  Status begin_again();

 private:
  LeaderGroups() = default;
  RankMemory::Comms& comms();

  MeshShape shape_ = {};
  std::optional<RankMemory> memory_;
  OwnedFd memory_file_;
  std::optional<RankMemory::Comms> comms_;
  KindCounters counters_;
  std::optional<RankSockets> sockets_;
  OwnedFd listener_;  // where ranks come to over sockets; no more once it is shut down
};

// A rank's connection to its leader, to whom several threads speak.
class LeaderConnection {
 public:
  explicit LeaderConnection(RankStream stream) : peer_{.stream = std::move(stream)} {}

  Status tell(const Json& what);
  Result<std::string> hear() { return peer_.stream.receive(); }
  Result<Json> hear_message() { return receive_message(peer_.stream); }
  std::string address() const;
  // For collectives that the leader does not see.
  KindCounters& counters() { return counters_; }
  // Shows that the process lives, until the leader is gone, or, with `or_speaks`, says something.
  void show_life(bool or_speaks = false);
  // watch_ranks() of the leader, which shows its life, too.
  std::string watch(const std::function<Heard()>& hear);

 private:
  RankPeer peer_;
  std::mutex mutex_;
  KindCounters counters_;
};

// A rank's place in its groups.
class RankMembership {
 public:
  // In the memory at `path`, or where that is empty over sockets: `on_lost` as LeaderGroups has it.
  static Result<RankMembership> join(LeaderConnection& leader, const std::string& path,
                                     const MeshShape& shape, int rank,
                                     std::function<void(int rank)> on_lost);

  Mesh mesh() const { return shared_ ? shared_->mesh() : sockets_->mesh(); }
  Comm& all() const { return shared_ ? shared_->all() : sockets_->all(); }

 private:
  Status join_memory(const std::string& path, int rank);
  Status join_sockets(LeaderConnection& leader, int rank, std::function<void(int)> on_lost);

  MeshShape shape_ = {};
  std::optional<RankMemory::Comms> shared_;
  std::optional<RankSockets> sockets_;
};

}  // namespace glint
