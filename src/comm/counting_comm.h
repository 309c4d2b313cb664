// CountingComm: another group's collectives, with their calls and bytes counted. In a group of one
// nothing moves, and nothing is counted.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "comm/comm.h"

namespace glint {

struct CommUse {
  std::int64_t calls = 0;
  // Bytes that this rank sent, or, where it sends none, received; in exchanges, of its own rows:
  // those that went out and came back.
  std::int64_t bytes = 0;
};

enum class CommKind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kExchange, kSend, kRecv };

// By the kinds of calls; zeros are empty ones. Read by any thread, or process, while it is written.
struct CommCounters {
  static constexpr std::array kNames = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                        "exchange",   "send",           "recv"};
  struct Counter {
    std::atomic<std::int64_t> calls, bytes;
  };
  std::array<Counter, kNames.size()> counters = {};

  // A call that moves `x`.
  void add(CommKind kind, const Tensor& x) {
    Counter& counter = counters[static_cast<std::size_t>(kind)];
    counter.calls.fetch_add(1, std::memory_order_relaxed);
    counter.bytes.fetch_add(x.size() * size_of(x.dtype), std::memory_order_relaxed);
  }
  // The counts so far; add_between() counts once more what two of them differ by.
  using Totals = std::array<CommUse, kNames.size()>;
  Totals totals() const {
    Totals all;
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = {counters[i].calls.load(), counters[i].bytes.load()};
    return all;
  }
  void add_between(const Totals& before, const Totals& after) {
    for (std::size_t i = 0; i < before.size(); ++i) {
      counters[i].calls += after[i].calls - before[i].calls;
      counters[i].bytes += after[i].bytes - before[i].bytes;
    }
  }
  // By the names of the calls that there were.
  std::map<std::string, CommUse> uses() const {
    std::map<std::string, CommUse> out;
    for (std::size_t i = 0; i < counters.size(); ++i) {
      if (counters[i].calls > 0) out[kNames[i]] = {counters[i].calls, counters[i].bytes};
    }
    return out;
  }
};

// The rows of an exchange that are counted: both ways, those that go out from this rank, or
// come back to it. Only the shape means something.
inline Tensor counted_rows(const ExchangeArgs& args) {
  if (args.backwards) return args.out;
  Tensor rows = args.x;
  if (args.rows) rows.shape[0] = args.rows.dim(0);
  return rows;
}

class CountingComm final : public Comm {
 public:
  explicit CountingComm(Comm& inner) : CountingComm(inner, nullptr) {}
  // In `counters`, which outlive it; null: in its own.
  CountingComm(Comm& inner, CommCounters* counters)
      : inner_(inner), counters_(counters ? *counters : own_) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void all_reduce(const Tensor& partial, const Tensor& out) override {
    count(CommKind::kAllReduce, partial);
    inner_.all_reduce(partial, out);
  }
  void reduce_scatter(const Tensor& partial, const Tensor& out) override {
    count(CommKind::kReduceScatter, partial);
    inner_.reduce_scatter(partial, out);
  }
  void all_gather(const Tensor& mine, const Tensor& all) override {
    count(CommKind::kAllGather, mine);
    inner_.all_gather(mine, all);
  }
  void broadcast(const Tensor& x, int root) override {
    count(CommKind::kBroadcast, x);
    inner_.broadcast(x, root);
  }
  void exchange(const ExchangeArgs& args) override {
    count(CommKind::kExchange, counted_rows(args));
    inner_.exchange(args);
  }
  void send(const Tensor& x, int to) override {
    count(CommKind::kSend, x);
    inner_.send(x, to);
  }
  void recv(const Tensor& x, int from) override {
    count(CommKind::kRecv, x);
    inner_.recv(x, from);
  }
  void barrier() override { inner_.barrier(); }
  bool can_record() const override { return inner_.can_record(); }
  bool can_record_exchange() const override { return inner_.can_record_exchange(); }
  CommCounters* counters() override { return &counters_; }
  const std::atomic<std::uint32_t>* ended() const override { return inner_.ended(); }

  // From any thread.
  std::map<std::string, CommUse> uses() const { return counters_.uses(); }

 private:
  void count(CommKind kind, const Tensor& x) {
    if (size() > 1) counters_.add(kind, x);
  }

  Comm& inner_;
  CommCounters own_;
  CommCounters& counters_;
};

}  // namespace glint
