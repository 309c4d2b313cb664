// The dense FFN, the mixture of experts, and the head.
#include "ops/compose.h"

namespace glint {

void Ops::dense_ffn(const DenseFfnArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  const Compose f{*this, scratch, args.delta.dtype};
  linear({.x = f.ffn_inner(args), .weight = args.weights.down_proj, .out = args.answer()});
}

void Ops::moe(const MoeArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  const DType dtype = args.answer().dtype;
  const std::int64_t T = args.x.dim(0), D = args.x.dim(1), k = args.num_experts_per_tok;
  const MoeRouteArgs routed = take_routing(args, scratch);
  moe_route(routed, scratch);
  const Tensor answers = scratch.take(dtype, {T * k, D});
  moe_experts(experts_of(routed, answers), scratch);
  moe_combine(combining_of(routed, answers), scratch);
}

void Ops::moe_route(const MoeRouteArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  const MoeArgs& moe = args.moe;
  const MoeWeights& w = moe.weights;
  const std::int64_t T = moe.x.dim(0);
  rms_norm({.x = moe.x, .delta = moe.delta, .weight = moe.norm, .eps = moe.eps, .out = args.m});
  const Tensor exact = scratch.take_padded(DType::kF32, {T, moe.x.dim(1)});
  rms_norm({.x = moe.x, .weight = moe.norm, .eps = moe.eps, .out = exact});
  const Tensor logits = scratch.take(DType::kF32, {T, w.gate.rows});
  linear({.x = exact, .weight = w.gate, .out = logits});
  const Tensor ids = take_routed(args, scratch);
  route(routing_of(args, logits, ids));
  permute({.ids = ids, .rows = args.rows, .offsets = args.offsets, .places = args.places});
}

void Ops::moe_experts(const MoeExpertsArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  const Compose f{*this, scratch, args.x.dtype};
  const MoeWeights& w = args.weights;
  const std::int64_t R = args.out.dim(0), inter = w.gate_proj.rows;
  const Tensor gate = scratch.take(f.dtype, {R, inter}), up = scratch.take(f.dtype, {R, inter});
  const auto multiply = [&](const Tensor& x, const Tensor& rows, const WeightStack& weights,
                            const Tensor& out) {
    grouped_linear({.x = x, .rows = rows, .offsets = args.offsets, .weights = weights, .out = out});
  };
  multiply(args.x, args.rows, w.gate_proj, gate);
  multiply(args.x, args.rows, w.up_proj, up);
  multiply(f.silu_mul(gate, up), {}, w.down_proj, args.out);
}

void Ops::moe_combine(const MoeCombineArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  const Compose f{*this, scratch, args.m.dtype};
  Tensor shared;
  if (const FfnWeights& s = args.weights.shared_experts) {
    const Tensor inner = f.silu_mul(f.linear(args.m, s.gate_proj), f.linear(args.m, s.up_proj));
    shared = scratch.take(args.delta.dtype, {args.m.dim(0), args.m.dim(1)});
    linear({.x = inner, .weight = s.down_proj, .out = shared});
  }
  combine({.y = args.y,
           .places = args.places,
           .weights = args.expert_weights,
           .shared = shared,
           .out = args.delta});
}

void Ops::head(const HeadArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  rms_norm(
      {.x = args.x, .delta = args.delta, .weight = args.norm, .eps = args.eps, .out = args.hidden});
  if (!args.logits) return;
  const Tensor wanted = scratch.take(args.hidden.dtype, {args.rows.dim(0), args.x.dim(1)});
  gather_rows({.x = args.hidden, .rows = args.rows, .out = wanted});
  linear({.x = wanted, .weight = args.lm_head, .out = args.logits});
}

}  // namespace glint
