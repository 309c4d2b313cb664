// RankSockets: the connections through which a rank of a layout talks to those of other machines.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "base/json.h"
#include "comm/connect_ranks.h"
#include "comm/socket_comm.h"
#include "runtime/rank_groups.h"

namespace glint {

// The traffic of a rank in its groups, by kGroupKinds.
using KindCounters = std::array<CommCounters, kNumGroupKinds>;
// The traffic as JSON, by the names of the kinds.
Json traffic_of(const KindCounters& counters);

// The rank's groups, and one of all ranks, whose traffic is not counted.
class RankSockets {
 public:
  // `on_lost` is called where a rank is gone. `counters` outlive this.
  RankSockets(const MeshShape& shape, int rank, KindCounters& counters,
              const std::function<void(int rank)>& on_lost);

  // A new generation, as connect_ranks() makes it; nobody may be in a call.
  Status connect(const OwnedFd& listener, const std::vector<RankAddress>& ranks,
                 std::uint64_t meeting, Deadline deadline);
  // SocketComm::end() of every group.
  void end() const;

  Mesh mesh() const { return members_.mesh(); }
  Comm& all() const { return *all_; }

 private:
  struct Link {
    std::size_t group = 0;  // of groups_
    SocketComm* comm = nullptr;
  };
  const int rank_;
  std::vector<std::vector<int>> groups_;
  std::vector<Link> links_;  // of members_ and all_
  GroupMembers members_;
  std::unique_ptr<Comm> all_;
};

}  // namespace glint
