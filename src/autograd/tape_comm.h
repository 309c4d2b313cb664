// TapeComm: collectives that a tape writes down between its ops, and goes back through.
//
// A tensor that every rank has gets a part of its gradient on each: the sum over the ranks is that
// of the loss. One that a rank has alone, as a slice of a product or the rows that were sent to its
// experts, gets all of it there. A backward pass is linear, so that no op needs to
// know of it: parts flow through norms and residuals as they are. Only where ranks added up do they
// meet: each one's partial sum has the whole gradient of the sum, which is an all_reduce back for
// one forth, and rows that were gathered have that of theirs, by a reduce_scatter. Parameters that
// every rank has are left with parts, which the caller adds.
#pragma once

#include "autograd/tape_ops.h"
#include "comm/comm.h"

namespace glint {

class TapeComm final : public Comm {
 public:
  // Both outlive it; `inner` is a group that `tape`'s rank belongs to.
  TapeComm(Comm& inner, TapeOps& tape) : inner_(inner), tape_(tape) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void all_reduce(const Tensor& partial, const Tensor& out) override {
    tape_.all_reduce(inner_, partial, out);
  }
  void all_gather(const Tensor& mine, const Tensor& all) override {
    tape_.all_gather(inner_, mine, all);
  }
  void exchange(const ExchangeArgs& args) override { tape_.exchange(inner_, args); }
  // Without a gradient: for whole numbers, and where nothing is recorded.
  void reduce_scatter(const Tensor& partial, const Tensor& out) override {
    inner_.reduce_scatter(partial, out);
  }
  void broadcast(const Tensor& x, int root) override { inner_.broadcast(x, root); }
  void send(const Tensor& x, int to) override { inner_.send(x, to); }
  void recv(const Tensor& x, int from) override { inner_.recv(x, from); }
  void barrier() override { inner_.barrier(); }

 private:
  Comm& inner_;
  TapeOps& tape_;
};

}  // namespace glint
