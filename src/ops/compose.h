// Compose: Ops and an arena as functions that return tensors, so that a block reads as expressions.
#pragma once

#include "ops/ops.h"

namespace glint {

// Tensors it returns live until the arena's enclosing Scope ends. `dtype` is the activations'.
struct Compose {
  Ops& ops;
  Arena& arena;
  DType dtype;

  Tensor linear(const Tensor& x, const Weight& weight) const {
    const Tensor out = arena.take(dtype, {x.dim(0), weight.rows});
    ops.linear({.x = x, .weight = weight, .out = out});
    return out;
  }
  Tensor rms_norm(const Tensor& x, const Tensor& weight, float eps) const {
    return add_rms_norm(x, {}, weight, eps);
  }
  // x += delta (where given), normalised.
  Tensor add_rms_norm(const Tensor& x, const Tensor& delta, const Tensor& weight, float eps) const {
    const Tensor out = arena.take_padded(dtype, {x.dim(0), x.dim(1)});
    ops.rms_norm({.x = x, .delta = delta, .weight = weight, .eps = eps, .out = out});
    return out;
  }
  Tensor silu_mul(const Tensor& gate, const Tensor& up) const {
    ops.silu_mul({.gate = gate, .up = up, .out = gate});
    return gate;
  }
  // silu(gate) * up of the normalised sum: what down_proj takes.
  Tensor ffn_inner(const DenseFfnArgs& args) const {
    const FfnWeights& w = args.weights;
    const Tensor m = add_rms_norm(args.x, args.delta, args.norm, args.eps);
    return silu_mul(linear(m, w.gate_proj), linear(m, w.up_proj));
  }
};

// The arguments of moe_route for `moe`, which must outlive them, with memory for all that it
// writes.
inline MoeRouteArgs take_routing(const MoeArgs& moe, Arena& arena) {
  const std::int64_t T = moe.x.dim(0), k = moe.num_experts_per_tok;
  return {.moe = moe,
          .m = arena.take_padded(moe.delta.dtype, {T, moe.x.dim(1)}),
          .weights = arena.take(DType::kF32, {T, k}),
          .rows = arena.take(DType::kI32, {T * k}),
          .offsets = arena.take(DType::kI32, {moe.weights.gate.rows + 1}),
          .places = arena.take(DType::kI32, {T, k})};
}

// The route of moe_route, from its router's logits to `ids`.
inline RouteArgs routing_of(const MoeRouteArgs& args, const Tensor& logits, const Tensor& ids) {
  const MoeArgs& moe = args.moe;
  return {.logits = logits,
          .bias = moe.weights.e_score_correction_bias,
          .positions = moe.positions,
          .n_group = moe.n_group,
          .topk_group = moe.topk_group,
          .norm_topk_prob = moe.norm_topk_prob,
          .routed_scaling_factor = moe.routed_scaling_factor,
          .ids = ids,
          .given = moe.routed_given,
          .weights = args.weights};
}

// The experts' answers to routed rows, and what becomes of them.
inline MoeExpertsArgs experts_of(const MoeRouteArgs& routed, const Tensor& answers) {
  return {.weights = routed.moe.weights,
          .x = routed.m,
          .rows = routed.rows,
          .offsets = routed.offsets,
          .out = answers};
}
inline MoeCombineArgs combining_of(const MoeRouteArgs& routed, const Tensor& answers) {
  return {.weights = routed.moe.weights,
          .m = routed.m,
          .y = answers,
          .places = routed.places,
          .expert_weights = routed.weights,
          .delta = routed.moe.answer()};
}

// Where its experts go: the caller's tensor, or one of `arena`.
inline Tensor take_routed(const MoeRouteArgs& args, Arena& arena) {
  const MoeArgs& moe = args.moe;
  if (moe.routed) return moe.routed;
  return arena.take(DType::kI32, {moe.x.dim(0), moe.num_experts_per_tok});
}

}  // namespace glint
