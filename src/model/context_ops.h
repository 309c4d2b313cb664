// ContextOps: the blocks of a rank that runs some rows of a sequence while others run the rest
// (context parallelism). The model's own code does not know of it.
#pragma once

#include "comm/comm.h"
#include "ops/forwarding_ops.h"

namespace glint {

// Every rank of the group has the whole cache: what a row leaves there is sent to all before
// it is written, so that each rank selects and attends for its rows as one rank does for all. All
// rows of a step lie in different slots, and all ranks call attention_in for the same layer.
class ContextOps final : public ForwardingOps {
 public:
  ContextOps(std::unique_ptr<Ops> inner, Comm& group)
      : ForwardingOps(std::move(inner)), group_(group) {}

  void attention_in(const AttentionInArgs& args, Arena& scratch) override;
  void write_latent(const WriteLatentArgs& args) override;
  void write_index(const WriteIndexArgs& args) override;

 private:
  // A rank's rows of the block in progress, and all ranks'.
  struct Rows {
    Arena& arena;
    std::int64_t all = 0;             // at most, of all ranks
    Tensor order = {}, offsets = {};  // ExchangeArgs: each rank gets every row of the others
    std::vector<std::int32_t> first = {};
    Tensor slots = {};  // [all], -1 beyond those that come
  };
  Rows meet(const BatchView& batch, Arena& arena);
  // The rows [T, D] of every rank, rank after rank; behind them, anything.
  Tensor all_of(const Tensor& mine, const Rows& rows);

  void exchange(const Tensor& mine, const Rows& rows, const Tensor& all);

  Comm& group_;
  Rows* rows_ = nullptr;  // while attention_in runs
};

}  // namespace glint
