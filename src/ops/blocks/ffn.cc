// The dense FFN, the mixture of experts, and the head.
#include "ops/compose.h"

namespace glint {

void Ops::dense_ffn(const DenseFfnArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  const Compose f{*this, scratch, args.x.dtype};
  const FfnWeights& w = args.weights;
  const Tensor m = f.add_rms_norm(args.x, args.delta, args.norm, args.eps);
  const Tensor inner = f.silu_mul(f.linear(m, w.gate_proj), f.linear(m, w.up_proj));
  linear({.x = inner, .weight = w.down_proj, .out = args.delta});
}

void Ops::moe(const MoeArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  const Compose f{*this, scratch, args.x.dtype};
  const MoeWeights& w = args.weights;
  const std::int64_t T = args.x.dim(0), E = w.gate.rows, k = args.num_experts_per_tok;
  const Tensor m = f.add_rms_norm(args.x, args.delta, args.norm, args.eps);

  const Tensor ids = args.routed ? args.routed : scratch.take(DType::kI32, {T, k});
  const Tensor weights = scratch.take(DType::kF32, {T, k});
  route({.logits = f.linear_f32(m, w.gate),
         .bias = w.e_score_correction_bias,
         .n_group = args.n_group,
         .topk_group = args.topk_group,
         .norm_topk_prob = args.norm_topk_prob,
         .routed_scaling_factor = args.routed_scaling_factor,
         .ids = ids,
         .weights = weights});
  const Tensor rows = scratch.take(DType::kI32, {T * k});
  const Tensor offsets = scratch.take(DType::kI32, {E + 1});
  const Tensor places = scratch.take(DType::kI32, {T, k});
  permute({.ids = ids, .rows = rows, .offsets = offsets, .places = places});

  const std::int64_t inter = w.gate_proj[0].rows;
  const Tensor gate = scratch.take(f.dtype, {T * k, inter});
  const Tensor up = scratch.take(f.dtype, {T * k, inter});
  const Tensor answers = scratch.take(f.dtype, {T * k, args.x.dim(1)});
  grouped_linear({.x = m, .rows = rows, .offsets = offsets, .weights = w.gate_proj, .out = gate});
  grouped_linear({.x = m, .rows = rows, .offsets = offsets, .weights = w.up_proj, .out = up});
  grouped_linear(
      {.x = f.silu_mul(gate, up), .offsets = offsets, .weights = w.down_proj, .out = answers});

  Tensor shared;
  if (const FfnWeights& s = w.shared_experts) {
    shared = f.linear(f.silu_mul(f.linear(m, s.gate_proj), f.linear(m, s.up_proj)), s.down_proj);
  }
  combine(
      {.y = answers, .places = places, .weights = weights, .shared = shared, .out = args.delta});
}

void Ops::head(const HeadArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  rms_norm(
      {.x = args.x, .delta = args.delta, .weight = args.norm, .eps = args.eps, .out = args.hidden});
  if (!args.logits) return;
  const Tensor wanted = scratch.take(args.x.dtype, {args.rows.dim(0), args.x.dim(1)});
  gather_rows({.x = args.hidden, .rows = args.rows, .out = wanted});
  linear({.x = wanted, .weight = args.lm_head, .out = args.logits});
}

}  // namespace glint
