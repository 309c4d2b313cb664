// Comm: a group of ranks that work on the same model.
//
// Libraries move bytes, glint adds: every sum is f32 and in the order of tree.h, which depends on
// the number of ranks only, so that bits do not depend on a library, a message's size or the batch.
//
// Every call is collective: all ranks of the group make the same calls in the same order, with the
// same types and shapes unless said otherwise. Calls are ordered with the ops of the rank's device:
// they may return before it is done.
//
// Where a rank is lost, no call waits any more, and it writes zeros in place of all that did not
// come: nothing is left as it was, for others read counts and indices there. Counts of up to 8 KiB
// a rank (all_gather) come all or not at all.
#pragma once

#include <atomic>
#include <span>

#include "tensor/tensor.h"

namespace glint {

struct CommCounters;  // comm/counting_comm.h

// Rows from every rank to every rank. Row s of `offsets` says how rank s's rows are dealt out: rank
// r gets [offsets[s][first[r]], offsets[s][first[r + 1]]). All ranks have the same `offsets`.
struct ExchangeArgs {
  // [S, D], whose rows may be strided, and [N] i32: row i of what this rank sends, in the order of
  // `offsets`, is x[rows[i]], or x[i] without `rows`. Backwards, row i of what the first exchange
  // brought.
  Tensor x = {}, rows = {};
  Tensor offsets = {};                       // [size, E + 1] i32, each row ascending from 0
  std::span<const std::int32_t> first = {};  // [size + 1] columns of `offsets`, ascending
  // [R, D] written, dtype of x: the rows of rank 0, then of rank 1, and so on; R is at least their
  // number, and what lies beyond is not written. Backwards, the rows where they came from.
  Tensor out = {};
  bool backwards = false;
};

class Comm {
 public:
  virtual ~Comm() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // out = the sum of all ranks' `partial` (f32), rounded once to out's type. Dense, of one shape;
  // an f32 `out` may be `partial`. The same bits on every rank.
  virtual void all_reduce(const Tensor& partial, const Tensor& out) = 0;
  // The same sum, of which this rank gets its part: rows [rank * n, (rank + 1) * n) of `partial`,
  // for an `out` of n rows, which if it is f32 may be these rows of `partial`. The same bits as
  // all_reduce.
  virtual void reduce_scatter(const Tensor& partial, const Tensor& out) = 0;
  // all [size * n, ..] = every rank's `mine` [n, ..], in the order of ranks; `mine` may be its rows
  // of `all`.
  virtual void all_gather(const Tensor& mine, const Tensor& all) = 0;
  // x = the x of `root`, dense.
  virtual void broadcast(const Tensor& x, int root) = 0;
  virtual void exchange(const ExchangeArgs& args) = 0;
  // From one rank to another, which asks for a tensor of the same type and shape; dense. Only these
  // two ranks call.
  virtual void send(const Tensor& x, int to) = 0;
  virtual void recv(const Tensor& x, int from) = 0;
  // Returns when every rank has called it.
  virtual void barrier() = 0;

  // Whether a device may record its calls and repeat them, as it does with ops.
  virtual bool can_record() const { return false; }
  // Whether exchange is such a call too: its rows are counted where `offsets` lie.
  virtual bool can_record_exchange() const { return false; }
  // Where this rank's calls are counted; null: nowhere.
  virtual CommCounters* counters() { return nullptr; }
  // Becomes other than 0 when a rank is gone, for those who wait elsewhere than in the group; null:
  // it has none.
  virtual const std::atomic<std::uint32_t>* ended() const { return nullptr; }
};

// A group of one: nothing moves.
class SelfComm final : public Comm {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  // Where `partial` and `out` are one tensor, of any type; else in host memory.
  void all_reduce(const Tensor& partial, const Tensor& out) override;
  void reduce_scatter(const Tensor& partial, const Tensor& out) override;
  void all_gather(const Tensor& mine, const Tensor& all) override;
  void broadcast(const Tensor&, int) override {}
  void exchange(const ExchangeArgs& args) override;
  void send(const Tensor&, int) override;
  void recv(const Tensor&, int) override;
  void barrier() override {}
  bool can_record() const override { return true; }
  bool can_record_exchange() const override { return true; }
};

// A group of one for all who need none.
Comm& self_comm();

// The groups that a rank belongs to; never null.
struct Mesh {
  Comm* tp = &self_comm();  // ranks that divide each matrix; they have the same tokens
  Comm* cp = &self_comm();  // ranks that share a sequence's rows; each has its whole cache
  Comm* dp = &self_comm();  // the same rank of each replica: what replicas tell their leader
  Comm* ep = &self_comm();  // ranks that share the routed experts; each has tokens of its own
  Comm* pp = &self_comm();  // stages, of some layers each; each stage's output is the next's input
};

}  // namespace glint
