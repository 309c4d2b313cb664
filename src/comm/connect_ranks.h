// The connections of ranks in their groups, in each of them each to each, over TCP.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/tcp.h"

namespace glint {

struct RankAddress {
  std::string host = {};
  int port = 0;
};

// Sockets to the other members of each of `groups`, whose ranks ascend, by group and member; none
// to itself, and none in a group that `rank` is no member of. Every rank connects to those below
// it, and those above it come to its `listener`. `meeting`: a number that all have, and no other
// ranks. Fails with kUnavailable, naming the rank that is missing.
Result<std::vector<std::vector<OwnedFd>>> connect_ranks(const OwnedFd& listener, int rank,
                                                        const std::vector<RankAddress>& ranks,
                                                        std::span<const std::vector<int>> groups,
                                                        std::uint64_t meeting, Deadline deadline);

}  // namespace glint
