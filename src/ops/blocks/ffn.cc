// The dense FFN, the mixture of experts, and the head.
#include "ops/compose.h"

namespace glint {

void Ops::dense_ffn(const DenseFfnArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  const Compose f{*this, scratch, args.delta.dtype};
  const FfnWeights& w = args.weights;
  const Tensor m = f.add_rms_norm(args.x, args.delta, args.norm, args.eps);
  const Tensor inner = f.silu_mul(f.linear(m, w.gate_proj), f.linear(m, w.up_proj));
  linear({.x = inner, .weight = w.down_proj, .out = args.delta});
}

void Ops::moe(const MoeArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  const Compose f{*this, scratch, args.delta.dtype};
  const MoeWeights& w = args.weights;
  const Tensor m = f.add_rms_norm(args.x, args.delta, args.norm, args.eps);
  const auto [weights, rows, offsets, places] = f.route(args);

  const std::int64_t pairs = rows.dim(0), inter = w.gate_proj.rows;
  const Tensor gate = scratch.take(f.dtype, {pairs, inter});
  const Tensor up = scratch.take(f.dtype, {pairs, inter});
  const Tensor answers = scratch.take(f.dtype, {pairs, args.x.dim(1)});
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
  const Tensor wanted = scratch.take(args.hidden.dtype, {args.rows.dim(0), args.x.dim(1)});
  gather_rows({.x = args.hidden, .rows = args.rows, .out = wanted});
  linear({.x = wanted, .weight = args.lm_head, .out = args.logits});
}

}  // namespace glint
