#include "backends/cpu/cpu_plan_ops.h"

#include <algorithm>

#include "backends/cpu/attention.h"
#include "backends/cpu/block_memory.h"
#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/key_scores.h"
#include "base/thread_pool.h"

namespace glint {
namespace cpu {
namespace {

void raise(std::int64_t& most, std::int64_t bytes) { most = std::max(most, bytes); }

}  // namespace

CpuPlanOps::CpuPlanOps(Device& device, CpuOps& ops)
    : PlanOps(device), ops_(ops), products_(ops.products_), num_threads_(ops.pool_.num_threads()) {}

bool CpuPlanOps::reserve() {
  const auto reserve_copies = [](TypedRows::Copies& copies, const Copies& planned) {
    return copies.bf16.reserve(planned.bf16) && copies.f32.reserve(planned.f32);
  };
  bool has_room = reserve_copies(ops_.x_, x_) && reserve_copies(ops_.expert_x_, expert_x_) &&
                  ops_.queries_.reserve(queries_) && ops_.scores_.reserve(scores_) &&
                  ops_.partials_.reserve(partials_);
  ops_.head_x_.resize(std::max(ops_.head_x_.size(), head_x_.size()));
  for (std::size_t h = 0; h < head_x_.size(); ++h) {
    has_room = has_room && reserve_copies(ops_.head_x_[h], head_x_[h]);
  }
  for (int i = 0; i < num_threads_; ++i) {
    has_room = has_room && ops_.products_.scratch(i).copy.reserve(thread_copy_) &&
               ops_.attention_[static_cast<std::size_t>(i)].reserve(attention_);
  }
  return has_room;
}

std::int64_t CpuPlanOps::scratch_bytes() const {
  std::int64_t bytes =
      num_threads_ * (static_cast<std::int64_t>(sizeof(Scratch)) + Growing::held_for(thread_copy_) +
                      Growing::held_for(attention_));
  for (const std::int64_t held :
       {x_.bf16, x_.f32, expert_x_.bf16, expert_x_.f32, queries_, scores_, partials_}) {
    bytes += Growing::held_for(held);
  }
  for (const Copies& head : head_x_) {
    bytes += Growing::held_for(head.bf16) + Growing::held_for(head.f32);
  }
  return bytes;
}

void CpuPlanOps::copy(Copies& to, const Tensor& x, WeightFormat format) const {
  const bool as_bf16 = products_.in_bf16(x.dtype, format);
  std::int64_t& most = as_bf16 ? to.bf16 : to.f32;
  raise(most, products_.copy_bytes(x, as_bf16));
  // Whole tiles of rows may be read where they are; a row less is copied.
  if (x.dim(0) > 1) raise(most, products_.copy_bytes(x.slice(0, 0, x.dim(0) - 1), as_bf16));
}

void CpuPlanOps::gather(const Tensor& x, std::int64_t most, WeightFormat format) {
  raise(thread_copy_, products_.copy_bytes(std::min<std::int64_t>(most, Scratch::kTokens), x.dim(1),
                                           products_.in_bf16(x.dtype, format)));
}

void CpuPlanOps::linear(const LinearArgs& args) {
  PlanOps::linear(args);
  copy(x_, args.x, args.weight.format);
}

void CpuPlanOps::grouped_linear(const GroupedLinearArgs& args) {
  PlanOps::grouped_linear(args);
  if (args.rows) {
    gather(args.x, args.rows.size(), args.weights[0].format);
  } else {
    copy(x_, args.x, args.weights[0].format);
  }
}

void CpuPlanOps::per_head(const PerHeadArgs& args) {
  PlanOps::per_head(args);
  head_x_.resize(std::max(head_x_.size(), static_cast<std::size_t>(args.x.dim(1))));
  for (std::int64_t h = 0; h < args.x.dim(1); ++h) {
    copy(head_x_[static_cast<std::size_t>(h)], args.x.head(h), args.weights.format);
  }
}

void CpuPlanOps::select_keys(const SelectKeysArgs& args) {
  PlanOps::select_keys(args);
  if (!args.q) return;
  const KeyScores memory(args, products_);
  raise(queries_, memory.query_bytes());
  // All tokens may be of one sequence, whatever is assumed of them.
  raise(scores_, memory.score_bytes(std::min(args.out.dim(0), memory.most),
                                    static_cast<std::int64_t>(assume().longest)));
}

void CpuPlanOps::sparse_mla(const SparseMlaArgs& args) {
  PlanOps::sparse_mla(args);
  const AttentionPlan plan(args, products_);
  const std::int64_t count = args.q_latent.dim(0) * plan.groups;
  const std::int64_t few = 2 * num_threads_ - 1;  // items: each is divided among threads
  raise(attention_, AttentionMemory::bytes(plan, count > few ? 2 : 0));
  raise(partials_, std::min(count, few) * AttentionSums::bytes(plan, plan.item_heads,
                                                               segments_of(args.indices.dim(1))));
}

void CpuPlanOps::dense_ffn(const DenseFfnArgs& args, Arena& scratch) {
  const FfnWeights& w = args.weights;
  const DType dtype = args.delta.dtype;
  if (!fuses(products_, dtype, w.gate_proj, w.up_proj)) return PlanOps::dense_ffn(args, scratch);
  const Arena::Scope scope(scratch);
  const Compose f{*this, scratch, dtype};
  const Tensor m = f.add_rms_norm(args.x, args.delta, args.norm, args.eps);
  const Tensor inner = take_ffn_inner(args, scratch);
  linear({.x = m, .weight = w.gate_proj, .out = inner});
  linear({.x = m, .weight = w.up_proj, .out = inner});
  linear({.x = inner, .weight = w.down_proj, .out = args.answer()});
}

void CpuPlanOps::moe(const MoeArgs& args, Arena& scratch) {
  const MoeWeights& w = args.weights;
  const FfnWeights& s = w.shared_experts;
  const DType dtype = args.delta.dtype;
  if (!fuses(products_, dtype, w)) return PlanOps::moe(args, scratch);
  const Arena::Scope scope(scratch);
  const MoeRouteArgs routed = take_routing(args, scratch);
  moe_route(routed, scratch);
  const MoeMemory memory = take_moe(args, scratch);
  if (s) {
    linear({.x = routed.m, .weight = s.gate_proj, .out = memory.shared_inner});
    linear({.x = routed.m, .weight = s.up_proj, .out = memory.shared_inner});
    linear({.x = memory.shared_inner, .weight = s.down_proj, .out = memory.shared});
  }
  for (const WeightStack* stack : {&w.gate_proj, &w.up_proj}) {
    note(GroupedLinearArgs{.x = routed.m, .weights = *stack, .out = memory.inner});
  }
  note(GroupedLinearArgs{.x = memory.inner, .weights = w.down_proj, .out = memory.answers});
  // In a step of one row; a rank may have none.
  copy(x_, routed.m.slice(0, 0, std::min<std::int64_t>(args.x.dim(0), 1)), w.gate_proj[0].format);
  gather(routed.m, args.x.dim(0), w.gate_proj[0].format);
  copy(expert_x_, memory.inner, w.down_proj[0].format);
  combine({.y = memory.answers,
           .places = routed.places,
           .weights = routed.weights,
           .shared = memory.shared,
           .out = args.answer()});
}

}  // namespace cpu

std::unique_ptr<PlanOps> CpuOps::make_plan_ops(Device& device) {
  return std::make_unique<cpu::CpuPlanOps>(device, *this);
}

std::int64_t CpuOps::scratch_bytes() const {
  std::int64_t bytes = products_.scratch_bytes();
  const auto add = [&](const cpu::TypedRows::Copies& copies) {
    bytes += copies.bf16.bytes() + copies.f32.bytes();
  };
  add(x_);
  add(expert_x_);
  for (const cpu::TypedRows::Copies& head : head_x_) add(head);
  for (const cpu::Growing* held : {&queries_, &scores_, &partials_}) bytes += held->bytes();
  for (const cpu::Growing& thread : attention_) bytes += thread.bytes();
  return bytes;
}

}  // namespace glint
