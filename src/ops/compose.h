// Compose: Ops and an arena as functions that return tensors, so that a block reads as expressions.
#pragma once

#include "ops/ops.h"

namespace glint {

// Which experts see which tokens, and where their outputs go (ops/moe.h).
struct Routing {
  Tensor weights = {};                          // [T, k] f32
  Tensor rows = {}, offsets = {}, places = {};  // as PermuteArgs has them
};

// Tensors it returns live until the arena's enclosing Scope ends. `dtype` is the activations'.
struct Compose {
  Ops& ops;
  Arena& arena;
  DType dtype;

  Tensor linear(const Tensor& x, const Weight& weight) const { return linear(x, weight, dtype); }
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
  // args.delta must be in args.x already.
  Routing route(const MoeArgs& args) const {
    const MoeWeights& w = args.weights;
    const std::int64_t T = args.x.dim(0), E = w.gate.rows, k = args.num_experts_per_tok;
    const Tensor m = arena.take_padded(DType::kF32, {T, args.x.dim(1)});
    ops.rms_norm({.x = args.x, .weight = args.norm, .eps = args.eps, .out = m});
    const Tensor ids = args.routed ? args.routed : arena.take(DType::kI32, {T, k});
    const Routing routing = {.weights = arena.take(DType::kF32, {T, k}),
                             .rows = arena.take(DType::kI32, {T * k}),
                             .offsets = arena.take(DType::kI32, {E + 1}),
                             .places = arena.take(DType::kI32, {T, k})};
    ops.route({.logits = linear(m, w.gate, DType::kF32),
               .bias = w.e_score_correction_bias,
               .positions = args.positions,
               .n_group = args.n_group,
               .topk_group = args.topk_group,
               .norm_topk_prob = args.norm_topk_prob,
               .routed_scaling_factor = args.routed_scaling_factor,
               .ids = ids,
               .given = args.routed_given,
               .weights = routing.weights});
    ops.permute(
        {.ids = ids, .rows = routing.rows, .offsets = routing.offsets, .places = routing.places});
    return routing;
  }

 private:
  Tensor linear(const Tensor& x, const Weight& weight, DType out_dtype) const {
    const Tensor out = arena.take(out_dtype, {x.dim(0), weight.rows});
    ops.linear({.x = x, .weight = weight, .out = out});
    return out;
  }
};

}  // namespace glint
