// NullComm: a member of a group whose others are not there. For plans: nothing moves, nobody waits.
#pragma once

#include "comm/comm.h"

namespace glint {

class NullComm final : public Comm {
 public:
  NullComm(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(const Tensor&, const Tensor&) override {}
  void reduce_scatter(const Tensor&, const Tensor&) override {}
  void all_gather(const Tensor&, const Tensor&) override {}
  void broadcast(const Tensor&, int) override {}
  void exchange(const ExchangeArgs&) override {}
  void send(const Tensor&, int) override {}
  void recv(const Tensor&, int) override {}
  void barrier() override {}

 private:
  int rank_, size_;
};

}  // namespace glint
