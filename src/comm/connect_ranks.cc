#include "comm/connect_ranks.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>

#include "base/str.h"

namespace glint {
namespace {

// The first bytes of a connection: whose it is.
struct Greeting {
  std::uint64_t group = 0;
  std::int32_t rank = -1;
  std::int32_t unused = 0;
};

// A newcomer's first bytes, within two seconds; a Greeting of no rank if there are none.
Greeting greeting_of(const OwnedFd& socket) {
  const timeval most = {.tv_sec = 2, .tv_usec = 0}, none = {};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  Greeting greeting;
  if (::recv(socket.get(), &greeting, sizeof greeting, MSG_WAITALL) != sizeof greeting) return {};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
  return greeting;
}

}  // namespace

Result<std::vector<OwnedFd>> connect_ranks(const OwnedFd& listener, int rank,
                                           const std::vector<RankAddress>& ranks,
                                           std::uint64_t group, Deadline deadline) {
  std::vector<OwnedFd> sockets(ranks.size());
  for (int r = 0; r < rank; ++r) {
    const RankAddress& to = ranks[static_cast<std::size_t>(r)];
    const std::string name = str("rank ", r);
    GLINT_TRY(OwnedFd socket, connect_tcp(to.host, to.port, deadline, false).in(name));
    const Greeting greeting = {.group = group, .rank = rank};
    if (::send(socket.get(), &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting)
      return Error{ErrorCode::kUnavailable, name + " has hung up"};
    sockets[static_cast<std::size_t>(r)] = std::move(socket);
  }
  const auto missing = [&] {
    return std::find_if(sockets.begin() + rank + 1, sockets.end(),
                        [](const OwnedFd& socket) { return !socket; });
  };
  while (missing() != sockets.end()) {
    GLINT_TRY(OwnedFd socket,
              accept_tcp(listener, deadline).in(str("rank ", missing() - sockets.begin())));
    const Greeting greeting = greeting_of(socket);
    if (greeting.group != group || greeting.rank <= rank || greeting.rank >= std::ssize(sockets))
      continue;  // it is none of ours
    sockets[static_cast<std::size_t>(greeting.rank)] = std::move(socket);
  }
  return sockets;
}

}  // namespace glint
