#include "runtime/rank_sockets.h"

#include <numeric>

#include "runtime/ranks.h"

namespace glint {

Json traffic_of(const KindCounters& counters) {
  Json::Object all;
  for (std::size_t kind = 0; kind < kNumGroupKinds; ++kind)
    all.emplace_back(kGroupKinds[kind].name, describe(counters[kind].uses()));
  return Json(std::move(all));
}

RankSockets::RankSockets(const MeshShape& shape, int rank, KindCounters& counters,
                         const std::function<void(int)>& on_lost)
    : rank_(rank) {
  const auto join = [&](const RankGroup& group) -> Member* {
    groups_.push_back(group.ranks);
    const int member = group.member(rank);
    if (member < 0) return nullptr;
    const auto lost = [ranks = group.ranks, on_lost](int peer) {
      on_lost(ranks[static_cast<std::size_t>(peer)]);
    };
    const auto size = static_cast<int>(group.ranks.size());
    return &members_.emplace_back(
        Member{groups_.size() - 1, std::make_unique<SocketComm>(member, size, lost)});
  };
  for (const RankGroup& group : groups_of(shape)) {
    Member* const member = join(group);
    if (!member) continue;
    member->place = kGroupKinds[group.kind].place;
    member->counting = std::make_unique<CountingComm>(*member->comm, &counters[group.kind]);
  }
  RankGroup all;
  all.ranks.resize(static_cast<std::size_t>(shape.num_ranks()));
  std::iota(all.ranks.begin(), all.ranks.end(), 0);
  join(all);
}

Status RankSockets::connect(const OwnedFd& listener, const std::vector<RankAddress>& ranks,
                            std::uint64_t meeting, Deadline deadline) {
  GLINT_TRY(auto sockets, connect_ranks(listener, rank_, ranks, groups_, meeting, deadline));
  for (const Member& member : members_) member.comm->connect(std::move(sockets[member.group]));
  return Ok{};
}

void RankSockets::end() const {
  for (const Member& member : members_) member.comm->end();
}

Mesh RankSockets::mesh() const {
  Mesh mesh;
  for (const Member& member : members_) {
    if (member.place) mesh.*member.place = member.counting.get();
  }
  return mesh;
}

}  // namespace glint
