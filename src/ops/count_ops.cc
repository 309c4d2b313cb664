#include "ops/count_ops.h"

#include <algorithm>
#include <vector>

namespace glint {

void CountOps::count(const Weight& weight, std::int64_t rows) {
  if (!weight || rows == 0) return;
  total_.bytes += static_cast<double>(bytes_of(weight));
  total_.flops += 2.0 * static_cast<double>(rows * weight.rows * weight.cols);
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
  for (const Weight* weight :
       {&args.weights.gate_proj, &args.weights.up_proj, &args.weights.down_proj}) {
    count(*weight, args.x.dim(0));
  }
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
  const FfnWeights& shared = w.shared_experts;
  for (const Weight* weight : {&shared.gate_proj, &shared.up_proj, &shared.down_proj})
    count(*weight, T);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(w.down_proj.count));
  const std::int32_t* chosen = with_routed.routed.ptr<std::int32_t>();
  for (std::int64_t i = 0; i < with_routed.routed.size(); ++i) {
    if (chosen[i] >= 0) ++rows[static_cast<std::size_t>(chosen[i])];  // else padding
  }
  for (std::int64_t e = 0; e < w.down_proj.count; ++e) {
    const std::int64_t here = rows[static_cast<std::size_t>(e)];
    for (const WeightStack* stack : {&w.gate_proj, &w.up_proj, &w.down_proj})
      if (here > 0) count((*stack)[e], here);
  }
}

void CountOps::head(const HeadArgs& args, Arena& scratch) {
  count(args.lm_head, args.logits ? args.rows.dim(0) : 0);
  inner_->head(args, scratch);
}

}  // namespace glint
