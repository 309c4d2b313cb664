#include "runtime/ranks.h"

#include <thread>

#include "comm/shared_comm.h"

namespace glint {

Ranks::Ranks(const MeshShape& shape)
    : shape_(shape), members_(static_cast<std::size_t>(shape.num_ranks())) {
  for (const RankGroup& group : groups_of(shape)) {
    std::vector<std::unique_ptr<Comm>> comms =
        make_thread_comms(static_cast<int>(group.ranks.size()));
    for (std::size_t i = 0; i < comms.size(); ++i) {
      members_[static_cast<std::size_t>(group.ranks[i])].add(group.kind, std::move(comms[i]));
    }
  }
}

std::map<std::string, CommUse> Ranks::uses(int rank, std::string_view name) const {
  for (const GroupKind& kind : kGroupKinds) {
    CommCounters* const counters =
        kind.name == name ? (mesh(rank).*kind.place)->counters() : nullptr;
    if (counters) return counters->uses();
  }
  return {};
}

void Ranks::run(const std::function<void(int rank)>& work) {
  std::vector<std::thread> others;
  for (int rank = 1; rank < size(); ++rank) others.emplace_back([&work, rank] { work(rank); });
  work(0);
  for (std::thread& other : others) other.join();
}

Json describe_rank(LoadedModel& model) {
  const ModelPartition& partition = model.partition();
  const auto range = [](int first, int end) { return Json(Json::Array{first, end}); };
  return Json::Object{
      {"rank", model.options().rank},
      {"device", model.ops().device().name()},
      {"shard", partition.replica},
      {"stage", partition.stage},
      {"tp_rank", partition.tp_rank},
      {"layers", range(partition.layers.begin, partition.layers.end)},
      {partition.shape.moves_experts ? "expert_slots" : "experts",
       range(partition.experts.first, partition.experts.first + partition.experts.count)},
      {"heads", range(partition.heads.first, partition.heads.first + partition.heads.count)},
      {"weight_bytes", model.load_stats().held_bytes},
      {"way", model.way_between_ranks()}};
}

Json describe(const std::map<std::string, CommUse>& uses) {
  Json::Object calls;
  for (const auto& [name, use] : uses) {
    calls.emplace_back(name, Json(Json::Object{{"calls", use.calls}, {"bytes", use.bytes}}));
  }
  return Json(std::move(calls));
}

}  // namespace glint
