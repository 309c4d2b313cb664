// CountingComm: another group's collectives, with their calls and bytes counted. In a group of one
// nothing moves, and nothing is counted.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "comm/comm.h"

namespace glint {

struct CommUse {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  // that this rank gave, or, where it gives none, took
};

class CountingComm final : public Comm {
 public:
  explicit CountingComm(Comm& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void all_reduce(const Tensor& partial, const Tensor& out) override {
    count("all_reduce", partial);
    inner_.all_reduce(partial, out);
  }
  void reduce_scatter(const Tensor& partial, const Tensor& out) override {
    count("reduce_scatter", partial);
    inner_.reduce_scatter(partial, out);
  }
  void all_gather(const Tensor& mine, const Tensor& all) override {
    count("all_gather", mine);
    inner_.all_gather(mine, all);
  }
  void broadcast(const Tensor& x, int root) override {
    count("broadcast", x);
    inner_.broadcast(x, root);
  }
  void exchange(const ExchangeArgs& args) override {
    count("exchange", args.backwards ? args.out : args.x);  // both ways, the rows of this rank
    inner_.exchange(args);
  }
  void send(const Tensor& x, int to) override {
    count("send", x);
    inner_.send(x, to);
  }
  void recv(const Tensor& x, int from) override {
    count("recv", x);
    inner_.recv(x, from);
  }
  void barrier() override { inner_.barrier(); }

  // By the names of the calls. Read between steps, from the rank's thread.
  const std::map<std::string, CommUse>& uses() const { return uses_; }

 private:
  void count(const char* name, const Tensor& x) {
    if (size() == 1) return;
    CommUse& use = uses_[name];
    ++use.calls;
    use.bytes += x.size() * size_of(x.dtype);
  }

  Comm& inner_;
  std::map<std::string, CommUse> uses_;
};

}  // namespace glint
