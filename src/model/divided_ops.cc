#include "model/divided_ops.h"

#include <algorithm>

#include "model/cut_weight.h"
#include "ops/compose.h"
#include "tensor/transfer.h"

namespace glint {
namespace {

// The columns of slice `slice`, of which each has `count`.
Tensor columns_of(const Tensor& x, int slice, std::int64_t count) {
  return x.slice(1, slice * count, count);
}

}  // namespace

DividedOps::DividedOps(std::unique_ptr<Ops> inner, const ModelPartition& partition, Comm& tp,
                       ModelWeights& weights)
    : ForwardingOps(std::move(inner)), partition_(partition), tp_(tp), weights_(weights) {
  GLINT_CHECK(tp.size() == partition.shape.tp, "a group of another size than the layout's");
}

void DividedOps::embed(const EmbedArgs& args) {
  if (tp_.size() == 1) return inner_->embed(args);
  EmbedArgs mine = args;
  mine.is_part = true;
  mine.first = static_cast<std::int32_t>(partition_.tp_rank * args.table.dim(0));
  inner_->embed(mine);
  tp_.all_reduce(args.out, args.out);  // of one row and zeros: nothing is rounded
}

void DividedOps::select_keys(const SelectKeysArgs& args) {
  // Scores, in each of a host's ranks, from which on a collective takes less time; a GPU's scan of
  // so many is shorter than one.
  constexpr std::int64_t kLeastScores = 1 << 14;
  const std::int64_t T = args.out.dim(0), each = T / tp_.size();
  const std::int64_t keys = std::min(args.batch.end, args.batch.page_table.dim(1) * kPageSize);
  const bool is_divided =
      tp_.size() > 1 && args.q && T * keys >= kLeastScores && args.out.is_dense();
  if (each == 0 || !is_divided || !device().is_host()) return inner_->select_keys(args);
  const auto scan = [&](std::int64_t first, std::int64_t count) {
    const auto rows = [&](const Tensor& x) { return x.slice(0, first, count); };
    SelectKeysArgs some = args;
    for (Tensor* x : {&some.q, &some.weights, &some.out, &some.batch.positions, &some.batch.slots,
                      &some.batch.seqs}) {
      *x = rows(*x);
    }
    inner_->select_keys(some);
  };
  scan(tp_.rank() * each, each);
  const std::int64_t shared = tp_.size() * each;
  tp_.all_gather(args.out.slice(0, tp_.rank() * each, each), args.out.slice(0, 0, shared));
  if (shared < T) scan(shared, T - shared);  // too few for all: everybody's
}

void DividedOps::attention_out(const AttentionOutArgs& args, Arena& scratch) {
  add_slices(args.delta, scratch, [&](int slice, const Tensor& out) {
    multiply(args.attended.flat(), args.weights.o_proj, slice, out);
  });
}

void DividedOps::dense_ffn(const DenseFfnArgs& args, Arena& scratch) {
  if (partition_.own_slices() == 1) {
    return add_slices(args.delta, scratch, [&](int, const Tensor& out) {
      DenseFfnArgs mine = args;
      mine.part = out;
      inner_->dense_ffn(mine, scratch);
    });
  }
  const Arena::Scope scope(scratch);
  const Compose f{*this, scratch, args.delta.dtype};
  const Tensor inner = f.ffn_inner(args);
  add_slices(args.delta, scratch, [&](int slice, const Tensor& out) {
    multiply(inner, args.weights.down_proj, slice, out);
  });
}

void DividedOps::moe(const MoeArgs& args, Arena& scratch) {
  if (!partition_.shape.cuts_experts()) return inner_->moe(args, scratch);
  if (partition_.own_slices() == 1) {
    return add_slices(args.delta, scratch, [&](int, const Tensor& out) {
      MoeArgs mine = args;
      mine.part = out;
      inner_->moe(mine, scratch);
    });
  }
  const Arena::Scope scope(scratch);
  const Compose f{*this, scratch, args.delta.dtype};
  const MoeWeights& w = args.weights;
  const std::int64_t T = args.x.dim(0), D = args.x.dim(1), pairs = T * args.num_experts_per_tok;
  const MoeRouteArgs routed = take_routing(args, scratch);
  moe_route(routed, scratch);

  const auto by_expert = [&](const WeightStack& weights) {
    const Tensor out = scratch.take(f.dtype, {pairs, weights.rows});
    grouped_linear({.x = routed.m,
                    .rows = routed.rows,
                    .offsets = routed.offsets,
                    .weights = weights,
                    .out = out});
    return out;
  };
  const Tensor inner = f.silu_mul(by_expert(w.gate_proj), by_expert(w.up_proj));
  const FfnWeights& s = w.shared_experts;
  Tensor shared_inner, shared;
  if (s) {
    shared_inner = f.silu_mul(f.linear(routed.m, s.gate_proj), f.linear(routed.m, s.up_proj));
    shared = scratch.take(DType::kF32, {T, D});
  }
  const Tensor answers = scratch.take(DType::kF32, {pairs, D});
  add_slices(args.delta, scratch, [&](int slice, const Tensor& out) {
    const WeightStack& down = of_slice(w.down_proj, slice);
    grouped_linear({.x = columns_of(inner, slice, down.cols),
                    .offsets = routed.offsets,
                    .weights = down,
                    .out = answers});
    if (s) multiply(shared_inner, s.down_proj, slice, shared);
    combine({.y = answers,
             .places = routed.places,
             .weights = routed.weights,
             .shared = shared,
             .out = out});
  });
}

template <class Part>
void DividedOps::add_slices(const Tensor& delta, Arena& scratch, Part part) {
  const Arena::Scope scope(scratch);
  const int slices = partition_.own_slices();
  std::vector<Tensor> sums;
  for (int i = 0; i < slices; ++i) {
    sums.push_back(scratch.take(DType::kF32, {delta.dim(0), delta.dim(1)}));
    part(i, sums.back());
  }
  // comm/tree.h's order, for a power of two.
  for (int step = 1; step < slices; step *= 2) {
    for (int i = 0; i + step < slices; i += 2 * step) add({.x = sums[i], .y = sums[i + step]});
  }
  tp_.all_reduce(sums[0], delta);
}

template <class WeightOrStack>
const WeightOrStack& DividedOps::of_slice(const WeightOrStack& first, int slice) const {
  if (slice == 0) return first;
  ModelWeights& weights = weights_.slices[static_cast<std::size_t>(slice - 1)];
  const ModelTensor& tensor = weights.tensors[static_cast<std::size_t>(first.id)];
  return *std::get<WeightOrStack*>(tensor.held(weights));
}

void DividedOps::multiply(const Tensor& x, const Weight& first, int slice, const Tensor& out) {
  const Weight& weight = of_slice(first, slice);
  linear({.x = columns_of(x, slice, weight.cols), .weight = weight, .out = out});
}

Tensor gather_logits(const Model& m, const Tensor& mine, Arena& arena) {
  Comm& tp = *m.mesh.tp;
  if (!mine || tp.size() == 1) return mine;
  const std::int64_t R = mine.dim(0), part = mine.dim(1), ranks = tp.size();
  const Tensor gathered = arena.take(DType::kF32, {ranks * R, part});
  tp.all_gather(mine, gathered);
  // From rank after rank to row after row.
  std::vector<std::int32_t> order;
  for (std::int64_t r = 0; r < R; ++r) {
    for (std::int64_t k = 0; k < ranks; ++k) order.push_back(static_cast<std::int32_t>(k * R + r));
  }
  const Tensor rows = upload(order, {R * ranks}, arena);
  const Tensor logits = arena.take(DType::kF32, {R * ranks, part});
  m.ops.gather_rows({.x = gathered, .rows = rows, .out = logits});
  return Tensor(logits.data, DType::kF32, {R, ranks * part});
}

void own_logits(const Model& m, const Tensor& logits, const Tensor& mine) {
  const std::int64_t part = mine.dim(1);
  const auto bytes = static_cast<std::size_t>(part * size_of(DType::kF32));
  for (std::int64_t r = 0; r < mine.dim(0); ++r) {
    const Tensor row = logits.slice(0, r, 1).slice(1, m.mesh.tp->rank() * part, part);
    m.ops.device().copy(mine.slice(0, r, 1).data, row.data, bytes);
  }
}

}  // namespace glint
