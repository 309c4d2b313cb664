#include "runtime/ranks.h"

#include <thread>

#include "comm/thread_comm.h"

namespace glint {

Ranks::Ranks(const MeshShape& shape) : shape_(shape) {
  ep_.resize(static_cast<std::size_t>(size()));
  pp_.resize(ep_.size());
  // The i-th member of a new group becomes `to` of rank `first` + i * `step`.
  const auto join = [&](int members, int first, int step, auto& to) {
    for (std::unique_ptr<Comm>& comm : make_thread_comms(members)) {
      to[static_cast<std::size_t>(first)] = std::make_unique<CountingComm>(*comm);
      groups_.push_back(std::move(comm));
      first += step;
    }
  };
  for (int rank = 0; rank < size(); ++rank) {
    if (shape.ep == 1) join(1, rank, 1, ep_);
  }
  for (int stage = 0; stage < shape.pp && shape.ep > 1; ++stage) {
    join(shape.dp, stage * shape.dp, 1, ep_);
  }
  for (int shard = 0; shard < shape.dp; ++shard) join(shape.pp, shard, shape.dp, pp_);
}

Mesh Ranks::mesh(int rank) {
  return {.ep = ep_[static_cast<std::size_t>(rank)].get(),
          .pp = pp_[static_cast<std::size_t>(rank)].get()};
}

void Ranks::run(const std::function<void(int rank)>& work) {
  std::vector<std::thread> others;
  for (int rank = 1; rank < size(); ++rank) others.emplace_back([&work, rank] { work(rank); });
  work(0);
  for (std::thread& other : others) other.join();
}

}  // namespace glint
