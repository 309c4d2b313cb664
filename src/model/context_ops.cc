#include "model/context_ops.h"

#include "tensor/transfer.h"

namespace glint {

// The composition: its writes to the cache are the calls below.
void ContextOps::attention_in(const AttentionInArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  Rows rows = meet(args.batch, scratch);
  rows_ = &rows;
  Ops::attention_in(args, scratch);
  rows_ = nullptr;
}

void ContextOps::write_latent(const WriteLatentArgs& args) {
  inner_->write_latent({.latent = all_of(args.latent, *rows_),
                        .k_rope = all_of(args.k_rope, *rows_),
                        .slots = rows_->slots,
                        .cache = args.cache});
}

void ContextOps::write_index(const WriteIndexArgs& args) {
  inner_->write_index({.k = all_of(args.k, *rows_), .slots = rows_->slots, .cache = args.cache});
}

ContextOps::Rows ContextOps::meet(const BatchView& batch, Arena& arena) {
  const auto ranks = static_cast<std::int64_t>(group_.size());
  const auto T = static_cast<std::int32_t>(batch.slots.dim(0));
  Rows rows = {.arena = arena, .all = batch.all_tokens};
  std::vector<std::int32_t> order, mine;
  for (std::int32_t r = 0; r <= ranks; ++r) {
    rows.first.push_back(r);
    mine.push_back(r * T);
    for (std::int32_t t = 0; r < ranks && t < T; ++t) order.push_back(t);
  }
  rows.order = upload(order, {std::ssize(order)}, arena);
  rows.offsets = arena.take(DType::kI32, {ranks, ranks + 1});
  group_.all_gather(upload(mine, {1, ranks + 1}, arena), rows.offsets);
  // Replicas that share other sequences count too: their rows do not come, and write nothing.
  const std::vector<std::int32_t> nowhere(static_cast<std::size_t>(rows.all), -1);
  rows.slots = upload(nowhere, {rows.all}, arena);
  exchange(batch.slots, rows, rows.slots);
  return rows;
}

Tensor ContextOps::all_of(const Tensor& mine, const Rows& rows) {
  const std::int64_t width = mine.dim(1);
  const Tensor all = rows.arena.take(mine.dtype, {rows.all, width});
  exchange(mine, rows, all);
  return all;
}

void ContextOps::exchange(const Tensor& mine, const Rows& rows, const Tensor& all) {
  group_.exchange(
      {.x = mine, .rows = rows.order, .offsets = rows.offsets, .first = rows.first, .out = all});
}

}  // namespace glint
