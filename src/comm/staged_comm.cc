#include "comm/staged_comm.h"

#include "comm/host_rows.h"

namespace glint {
namespace {

std::size_t extent(const Tensor& x) { return static_cast<std::size_t>(end_of(x) - x.data); }

}  // namespace

Tensor StagedComm::like(const Tensor& x, Copy& memory) {
  Tensor host = x;
  memory.resize(std::max<std::size_t>(extent(x), 1));
  host.data = memory.data();
  return host;
}

Tensor StagedComm::from_device(const Tensor& x, Copy& memory) {
  if (!x) return x;
  const Tensor host = like(x, memory);
  if (const std::size_t bytes = extent(x)) device_.copy_out(host.data, x.data, bytes);
  return host;
}

void StagedComm::to_device(const Tensor& host, const Tensor& x) {
  if (const std::size_t bytes = extent(x)) device_.copy_in(x.data, host.data, bytes);
}

void StagedComm::all_reduce(const Tensor& partial, const Tensor& out) {
  const Tensor part = from_device(partial, given_), sum = like(out, taken_);
  host_.all_reduce(part, sum);
  to_device(sum, out);
}

void StagedComm::reduce_scatter(const Tensor& partial, const Tensor& out) {
  const Tensor part = from_device(partial, given_), sum = like(out, taken_);
  host_.reduce_scatter(part, sum);
  to_device(sum, out);
}

void StagedComm::all_gather(const Tensor& mine, const Tensor& all) {
  const Tensor own = from_device(mine, given_), gathered = like(all, taken_);
  host_.all_gather(own, gathered);
  to_device(gathered, all);
}

void StagedComm::broadcast(const Tensor& x, int root) {
  const Tensor host = rank() == root ? from_device(x, given_) : like(x, given_);
  host_.broadcast(host, root);
  if (rank() != root) to_device(host, x);
}

// Only the rows of `out` that come are written: others may hold what somebody still needs.
void StagedComm::exchange(const ExchangeArgs& args) {
  ExchangeArgs host = args;
  host.x = from_device(args.x, given_);
  host.rows = from_device(args.rows, rows_);
  host.offsets = from_device(args.offsets, offsets_);
  host.out = like(args.out, taken_);
  host_.exchange(host);
  for (const SentRows& s : rows_sent_to(host, rank(), size())) {
    to_device(host.out.slice(0, s.at, s.count), args.out.slice(0, s.at, s.count));
  }
}

void StagedComm::send(const Tensor& x, int to) { host_.send(from_device(x, given_), to); }

void StagedComm::recv(const Tensor& x, int from) {
  const Tensor host = like(x, taken_);
  host_.recv(host, from);
  to_device(host, x);
}

void StagedComm::barrier() {
  device_.synchronize();
  host_.barrier();
}

}  // namespace glint
