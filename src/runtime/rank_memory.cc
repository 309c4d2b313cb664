#include "runtime/rank_memory.h"

#include "runtime/ranks.h"

namespace glint {

std::size_t RankMemory::bytes_for(const MeshShape& shape) {
  std::size_t bytes = SharedGroup::bytes_for(shape.num_ranks());
  for (const RankGroup& group : groups_of(shape))
    bytes += SharedGroup::bytes_for(static_cast<int>(group.ranks.size()));
  return bytes;
}

Result<RankMemory> RankMemory::map(const MeshShape& shape, int fd) {
  GLINT_TRY(SharedGroup all, SharedGroup::map(shape.num_ranks(), fd));
  RankMemory memory(std::move(all));
  std::size_t begin = SharedGroup::bytes_for(shape.num_ranks());
  for (RankGroup& plan : groups_of(shape)) {
    const auto size = static_cast<int>(plan.ranks.size());
    GLINT_TRY(SharedGroup group, SharedGroup::map(size, fd, begin));
    memory.groups_.push_back({std::move(plan), std::move(group)});
    begin += SharedGroup::bytes_for(size);
  }
  return memory;
}

void RankMemory::end() const {
  all_.end();
  for (const Group& group : groups_) group.memory.end();
}

Status RankMemory::begin_again(int fd) const {
  GLINT_TRY_STATUS(all_.begin_again(fd));
  std::size_t begin = SharedGroup::bytes_for(all_.size());
  for (const Group& group : groups_) {
    GLINT_TRY_STATUS(group.memory.begin_again(fd, begin));
    begin += SharedGroup::bytes_for(group.memory.size());
  }
  return Ok{};
}

RankMemory::Comms::Comms(const RankMemory& memory, int rank)
    : all_(make_shared_comm(memory.all_, rank)) {
  for (const Group& group : memory.groups_) {
    const int member = group.plan.member(rank);
    if (member < 0) continue;
    members_.add(group.plan.kind, make_shared_comm(group.memory, member),
                 &group.memory.counters(member));
  }
}

Json RankMemory::traffic(int rank) const {
  Json all = no_traffic();
  for (const Group& group : groups_) {
    const int member = group.plan.member(rank);
    if (member < 0) continue;
    all.set(kGroupKinds[group.plan.kind].name, describe(group.memory.counters(member).uses()));
  }
  return all;
}

Json no_traffic() {
  Json::Object none;
  for (const GroupKind& kind : kGroupKinds) none.emplace_back(kind.name, Json::Object{});
  return Json(std::move(none));
}

}  // namespace glint
