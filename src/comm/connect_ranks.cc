#include "comm/connect_ranks.h"

#include <sys/socket.h>

#include <algorithm>

#include "base/contains.h"
#include "base/str.h"

namespace glint {
namespace {

// The first bytes of a connection: whose it is, and in which group.
struct Greeting {
  std::uint64_t meeting = 0;
  std::int32_t rank = -1, group = -1;
};

constexpr std::chrono::seconds kGreetingTime{2};

// The first bytes of a newcomer that speaks; a Greeting of no rank where it has hung up instead.
Greeting greeting_of(const OwnedFd& socket) {
  Greeting greeting;
  if (::recv(socket.get(), &greeting, sizeof greeting, MSG_DONTWAIT) != sizeof greeting) return {};
  return greeting;
}

Error unreachable(int rank, const std::string& why) {
  return unavailable(str("rank ", rank, " is not connected: ", why,
                         "; machines of ranks must reach each other on every port"));
}

// The sockets of one rank.
struct Connections {
  std::span<const std::vector<int>> groups;
  std::vector<std::vector<OwnedFd>> sockets = {};

  // The place of the connection with `rank` in a group; null: there is none.
  OwnedFd* place(int group, int rank) {
    if (group < 0 || group >= std::ssize(groups)) return nullptr;
    const std::vector<int>& members = groups[static_cast<std::size_t>(group)];
    const auto found = std::find(members.begin(), members.end(), rank);
    auto& row = sockets[static_cast<std::size_t>(group)];
    if (found == members.end() || row.empty()) return nullptr;
    return &row[static_cast<std::size_t>(found - members.begin())];
  }
};

}  // namespace

Result<std::vector<std::vector<OwnedFd>>> connect_ranks(const OwnedFd& listener, int rank,
                                                        const std::vector<RankAddress>& ranks,
                                                        std::span<const std::vector<int>> groups,
                                                        std::uint64_t meeting, Deadline deadline) {
  Connections all = {.groups = groups};
  std::vector<int> to_come;  // ranks above, once for each group
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const std::vector<int>& members = groups[group];
    auto& row = all.sockets.emplace_back();
    if (!contains(members, rank)) continue;
    row.resize(members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i] > rank) to_come.push_back(members[i]);
      if (members[i] >= rank) continue;
      const RankAddress& to = ranks[static_cast<std::size_t>(members[i])];
      const std::string name = str("rank ", members[i]);
      Result<OwnedFd> connected = connect_tcp(to.host, to.port, deadline, true);
      if (!connected.ok()) return unreachable(members[i], connected.error().message);
      row[i] = std::move(connected).value();
      const Greeting greeting = {
          .meeting = meeting, .rank = rank, .group = static_cast<std::int32_t>(group)};
      if (::send(row[i].get(), &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting)
        return unavailable(name + " has hung up");
    }
  }
  SpeakingTcp comers(listener, sizeof(Greeting), kGreetingTime);
  while (!to_come.empty()) {
    Result<OwnedFd> accepted = comers.accept(deadline);
    if (!accepted.ok()) {
      return unreachable(to_come.front(), str("it has not come to port ", port_of(listener), ": ",
                                              accepted.error().message));
    }
    OwnedFd socket = std::move(accepted).value();
    const Greeting greeting = greeting_of(socket);
    if (greeting.meeting != meeting || greeting.rank <= rank) continue;
    OwnedFd* const place = all.place(greeting.group, greeting.rank);
    if (!place) continue;  // it is none of ours
    // The later of two is the one that lives.
    if (!*place) to_come.erase(std::find(to_come.begin(), to_come.end(), greeting.rank));
    *place = std::move(socket);
  }
  return std::move(all.sockets);
}

}  // namespace glint
