// Ranks that a launcher started (mpirun, srun, torchrun, Kubernetes), on one machine or several:
// how they meet.
//
//   rank 0: leader, listens                 rank 1, 2, ..: an agent, which connects and
//   RankGate <------- RankHello ----------- starts the rank's process on that connection
//
// A rank that is lost, or whose leader begins anew, ends; its agent connects again, and starts
// another. An agent ends when its leader does.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/tcp.h"
#include "runtime/rank_wire.h"

namespace glint {

// A rank's first message.
struct RankHello {
  std::string build;    // of the program
  std::string launch;   // the same for all that a launcher started together
  std::string machine;  // the same for processes that can map each other's memory
  int rank = 0, size = 1;
  // The part of the process's command line that all ranks must have alike: values by option. Rank 0
  // has a value for each; others may leave out those that rank 0 decides.
  std::map<std::string, std::string> asked = {};
};

// How long ranks wait for each other at first, when machines start at different times, and after
// one was lost, when a link may come back.
inline constexpr int kMeetSeconds = 300, kReturnSeconds = 120;

// RankHello::machine of this process.
std::string this_machine();

std::string write_hello(const RankHello& hello);
// From anyone who connects.
Result<RankHello> read_hello(std::string_view text);

// Where followers come to their leader.
class RankGate {
 public:
  struct Newcomer {
    RankStream stream;
    RankHello hello;
  };
  // `self` is rank 0's; ranks below `first` do not come: it starts them itself. Fails if the port
  // is taken.
  static Result<std::unique_ptr<RankGate>> open(int port, RankHello self, int first = 1);

  int first() const { return first_; }
  // The ranks from first() on, as soon as all are there. Those of another build or size, or
  // that ask for something else, are told so, and it fails; those of another launch are told so,
  // too, and sent away, as strangers are, and as those of another version are once all have met.
  Result<std::vector<Newcomer>> admit(Deadline deadline);
  // Whether these can map the memory of this process.
  bool share_machine(const std::vector<Newcomer>& all) const;

 private:
  RankGate(OwnedFd listener, RankHello self, int first)
      : listener_(std::move(listener)), self_(std::move(self)), first_(first) {}

  const OwnedFd listener_;
  const RankHello self_;
  const int first_;
  bool have_met_ = false;
};

struct AgentOptions {
  std::vector<std::string> command = {};  // comes to run_rank_process() (rank_process.h)
  RankHello self;
  std::string leader;  // its host
  int port = 0;
};

// A rank's stream to its leader, which has taken it in by then; `again`: it was there before. Fails
// with kNotFound where it was there, also to those who waited for their turn, and has ended, with
// kUnavailable where it is not reached in time, and with its reason where it refuses.
Result<RankStream> come_to_leader(const AgentOptions& options, bool again);

// Runs ranks for their leader, as often as this asks; returns when the leader has ended. Fails
// where there is none, or none to be reached any more, or where a rank cannot be run. Signals that
// end a server are for the leader while one of the ranks runs, and for this process while none
// does.
Status run_rank_agents(const std::vector<AgentOptions>& ranks);

}  // namespace glint
