// The connections of a group of ranks, each to each, over TCP.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/tcp.h"

namespace glint {

struct RankAddress {
  std::string host = {};
  int port = 0;
};

// Sockets to the others, by rank; none to itself. Every rank connects to those below it, and those
// above it come to its `listener`. `group`: a number that all have, and no other group. Fails with
// kUnavailable, naming the rank that is missing.
Result<std::vector<OwnedFd>> connect_ranks(const OwnedFd& listener, int rank,
                                           const std::vector<RankAddress>& ranks,
                                           std::uint64_t group, Deadline deadline);

}  // namespace glint
