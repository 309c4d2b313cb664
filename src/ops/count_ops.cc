#include "ops/count_ops.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace glint {
namespace {

std::span<const std::int32_t> ints_of(const Tensor& x) {
  return {x.ptr<std::int32_t>(), static_cast<std::size_t>(x.size())};
}

}  // namespace

void CountOps::count(const Weight& weight, std::int64_t rows) {
  if (!weight || rows == 0) return;
  total_.bytes += static_cast<double>(bytes_of(weight));
  total_.flops += 2.0 * static_cast<double>(rows * weight.rows * weight.cols);
}

void CountOps::count(const FfnWeights& weights, std::int64_t rows) {
  for (const Weight* weight : {&weights.gate_proj, &weights.up_proj, &weights.down_proj})
    count(*weight, rows);
}

void CountOps::count(const WeightStack& weights, std::span<const std::int32_t> offsets) {
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e)
    count(weights[static_cast<std::int64_t>(e)], offsets[e + 1] - offsets[e]);
}

void CountOps::attention_in(const AttentionInArgs& args, Arena& scratch) {
  const AttentionWeights& w = args.weights;
  const std::int64_t T = args.x.dim(0);
  for (const Weight* weight : {&w.q_a_proj, &w.q_b_proj, &w.kv_a_proj_with_mqa, &w.indexer.wk}) {
    count(*weight, T);
  }
  if (args.index_q) {
    for (const Weight* weight : {&w.indexer.wq_b, &w.indexer.weights_proj}) count(*weight, T);
  }
  inner_->attention_in(args, scratch);
}

void CountOps::select_keys(const SelectKeysArgs& args) {
  const std::int32_t* positions = args.batch.positions.ptr<std::int32_t>();
  for (std::int64_t t = 0; t < args.out.dim(0); ++t) {
    const std::int64_t visible = positions[t] + 1;
    if (visible <= args.out.dim(1)) continue;  // all of them are chosen
    total_.bytes += static_cast<double>(visible * args.cache.page_bytes() / kPageSize);
    total_.flops += 2.0 * static_cast<double>(visible * args.q.dim(1) * args.q.dim(2));
  }
  inner_->select_keys(args);
}

void CountOps::attend(const AttendArgs& args, Arena& scratch) {
  const AttentionDims& d = args.dims;
  const std::int64_t T = args.q.dim(0);
  for (const WeightStack* half : {&args.weights.w_uk, &args.weights.w_uv}) {
    for (std::int64_t h = 0; h < half->count; ++h) count((*half)[h], T);
  }
  const std::int32_t* slots = args.selected.ptr<std::int32_t>();
  const std::int64_t chosen =
      args.selected.size() - std::count(slots, slots + args.selected.size(), -1);
  total_.bytes += static_cast<double>(chosen * args.latent_cache.row_bytes());
  total_.flops +=
      2.0 * static_cast<double>(chosen * d.heads * (2 * d.kv_lora_rank + d.qk_rope_head_dim));
  inner_->attend(args, scratch);
}

void CountOps::attention_out(const AttentionOutArgs& args, Arena& scratch) {
  count(args.weights.o_proj, args.attended.dim(0));
  inner_->attention_out(args, scratch);
}

void CountOps::dense_ffn(const DenseFfnArgs& args, Arena& scratch) {
  count(args.weights, args.x.dim(0));
  inner_->dense_ffn(args, scratch);
}

void CountOps::moe(const MoeArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  const MoeWeights& w = args.weights;
  const std::int64_t T = args.x.dim(0);
  MoeArgs with_routed = args;
  if (!with_routed.routed)
    with_routed.routed = scratch.take(DType::kI32, {T, args.num_experts_per_tok});
  inner_->moe(with_routed, scratch);
  count(w.gate, T);
  count(w.shared_experts, T);
  std::vector<std::int32_t> offsets(static_cast<std::size_t>(w.down_proj.count) + 1);
  const std::int32_t* chosen = with_routed.routed.ptr<std::int32_t>();
  for (std::int64_t i = 0; i < with_routed.routed.size(); ++i) {
    if (chosen[i] >= 0) ++offsets[static_cast<std::size_t>(chosen[i]) + 1];  // else padding
  }
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  for (const WeightStack* stack : {&w.gate_proj, &w.up_proj, &w.down_proj}) count(*stack, offsets);
}

void CountOps::moe_route(const MoeRouteArgs& args, Arena& scratch) {
  count(args.moe.weights.gate, args.m.dim(0));
  inner_->moe_route(args, scratch);
}

void CountOps::moe_experts(const MoeExpertsArgs& args, Arena& scratch) {
  const MoeWeights& w = args.weights;
  for (const WeightStack* stack : {&w.gate_proj, &w.up_proj, &w.down_proj})
    count(*stack, ints_of(args.offsets));
  inner_->moe_experts(args, scratch);
}

void CountOps::moe_combine(const MoeCombineArgs& args, Arena& scratch) {
  count(args.weights.shared_experts, args.m.dim(0));
  inner_->moe_combine(args, scratch);
}

void CountOps::linear(const LinearArgs& args) {
  count(args.weight, args.x.dim(0));
  inner_->linear(args);
}

void CountOps::grouped_linear(const GroupedLinearArgs& args) {
  count(args.weights, ints_of(args.offsets));
  inner_->grouped_linear(args);
}

void CountOps::head(const HeadArgs& args, Arena& scratch) {
  count(args.lm_head, args.logits ? args.rows.dim(0) : 0);
  inner_->head(args, scratch);
}

}  // namespace glint
