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
  const auto join = [&](const RankGroup& group) -> std::unique_ptr<Comm> {
    groups_.push_back(group.ranks);
    const int member = group.member(rank);
    if (member < 0) return nullptr;
    const auto lost = [ranks = group.ranks, on_lost](int peer) {
      on_lost(ranks[static_cast<std::size_t>(peer)]);
    };
    auto comm = std::make_unique<SocketComm>(member, static_cast<int>(group.ranks.size()), lost);
    links_.push_back({groups_.size() - 1, comm.get()});
    return comm;
  };
  for (const RankGroup& group : groups_of(shape)) {
    if (auto comm = join(group)) members_.add(group.kind, std::move(comm), &counters[group.kind]);
  }
  RankGroup all;
  all.ranks.resize(static_cast<std::size_t>(shape.num_ranks()));
  std::iota(all.ranks.begin(), all.ranks.end(), 0);
  all_ = join(all);
}

Status RankSockets::connect(const OwnedFd& listener, const std::vector<RankAddress>& ranks,
                            std::uint64_t meeting, Deadline deadline) {
  GLINT_TRY(auto sockets, connect_ranks(listener, rank_, ranks, groups_, meeting, deadline));
  for (const Link& link : links_) link.comm->connect(std::move(sockets[link.group]));
  return Ok{};
}

void RankSockets::end() const {
  for (const Link& link : links_) link.comm->end();
}

}  // namespace glint
