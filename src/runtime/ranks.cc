#include "runtime/ranks.h"

#include <thread>

#include "comm/shared_comm.h"

namespace glint {

Ranks::Ranks(const MeshShape& shape) : shape_(shape) {
  tp_.resize(static_cast<std::size_t>(size()));
  cp_.resize(tp_.size());
  ep_.resize(tp_.size());
  pp_.resize(tp_.size());
  // The i-th member of a new group becomes `to` of rank `first` + i * `step`.
  const auto join = [&](int members, int first, int step, auto& to) {
    for (std::unique_ptr<Comm>& comm : make_thread_comms(members)) {
      to[static_cast<std::size_t>(first)] = std::make_unique<CountingComm>(*comm);
      groups_.push_back(std::move(comm));
      first += step;
    }
  };
  const int stage = shape.tp * shape.dp;  // ranks of one
  for (int rank = 0; rank < size(); rank += shape.tp) join(shape.tp, rank, 1, tp_);
  for (int rank = 0; rank < size(); ++rank) {
    // The shards of a stage, or this one alone.
    if (rank / shape.tp % shape.cp == 0) join(shape.cp, rank, shape.tp, cp_);
  }
  for (int rank = 0; rank < size(); rank += shape.ep) join(shape.ep, rank, 1, ep_);
  for (int rank = 0; rank < stage; ++rank) join(shape.pp, rank, stage, pp_);
}

Mesh Ranks::mesh(int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return {.tp = tp_[r].get(), .cp = cp_[r].get(), .ep = ep_[r].get(), .pp = pp_[r].get()};
}

void Ranks::run(const std::function<void(int rank)>& work) {
  std::vector<std::thread> others;
  for (int rank = 1; rank < size(); ++rank) others.emplace_back([&work, rank] { work(rank); });
  work(0);
  for (std::thread& other : others) other.join();
}

Json describe_rank(LoadedModel& model) {
  const ShardPlan& shard = model.shard();
  const auto range = [](int first, int end) { return Json(Json::Array{first, end}); };
  return Json::Object{
      {"rank", model.options().rank},
      {"device", model.ops().device().name()},
      {"shard", shard.shard},
      {"stage", shard.stage},
      {"tp_rank", shard.tp_rank},
      {"layers", range(shard.layers.begin, shard.layers.end)},
      {"experts", range(shard.experts.first, shard.experts.first + shard.experts.count)},
      {"heads", range(shard.heads.first, shard.heads.first + shard.heads.count)},
      {"weight_bytes", model.load_stats().held_bytes}};
}

Json describe(const std::map<std::string, CommUse>& uses) {
  Json::Object calls;
  for (const auto& [name, use] : uses) {
    calls.emplace_back(name, Json(Json::Object{{"calls", use.calls}, {"bytes", use.bytes}}));
  }
  return Json(std::move(calls));
}

}  // namespace glint
