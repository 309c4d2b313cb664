#include "runtime/rank_groups.h"

#include <algorithm>

namespace glint {

int RankGroup::member(int rank) const {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

std::vector<RankGroup> groups_of(const MeshShape& shape) {
  std::vector<RankGroup> groups;
  // `members` ranks that lie `step` apart, for every rank that is the first of such.
  const auto add = [&](std::size_t kind, int members, int step) {
    if (members == 1) return;
    for (int first = 0; first < shape.num_ranks(); ++first) {
      if (first / step % members != 0) continue;
      RankGroup& group = groups.emplace_back(RankGroup{.kind = kind, .ranks = {}});
      for (int i = 0; i < members; ++i) group.ranks.push_back(first + i * step);
    }
  };
  add(0, shape.tp, 1);
  add(1, shape.cp, shape.tp);
  add(2, shape.dp, shape.tp);
  add(3, shape.ep, 1);
  add(4, shape.pp, shape.tp * shape.dp);
  return groups;
}

void GroupMembers::add(std::size_t kind, std::unique_ptr<Comm> comm, CommCounters* counters) {
  auto counting = std::make_unique<CountingComm>(*comm, counters);
  members_.push_back({kind, std::move(comm), std::move(counting)});
}

Mesh GroupMembers::mesh() const {
  Mesh mesh;
  for (const Member& member : members_)
    mesh.*kGroupKinds[member.kind].place = member.counting.get();
  return mesh;
}

}  // namespace glint
