// The blocks of CudaOps: in bf16 what comes of a product of attention_in for a cache is one launch,
// and so are the gate and up products of an FFN with what joins them.
//
// They are written over launches, which CudaOps makes and CudaPlanOps counts, so that a plan takes
// the memory that the blocks take.
#pragma once

#include <functional>

#include "backends/cuda/attention/inputs.h"
#include "backends/cuda/elementwise/elementwise.h"
#include "backends/cuda/linear/linear.h"
#include "backends/cuda/moe/moe.h"
#include "ops/blocks/blocks.h"
#include "ops/compose.h"

namespace glint::cuda {

template <class Base>
class Blocks : public Base {
 public:
  using Base::Base;

  // The query's way is the longest: what goes into the caches, and the index weights, come beside
  // it, and so does the attention's query beside the indexer's.
  void attention_in(const AttentionInArgs& args, Arena& scratch) override {
    const AttentionDims& d = args.dims;
    const AttentionWeights& w = args.weights;
    const bool with_index = w.indexer && !args.selection_given;
    if (!is_attention_inputs(args, with_index)) return Base::attention_in(args, scratch);
    const Arena::Scope scope(scratch);
    const Compose f{*this, scratch, args.q.dtype};
    const std::int64_t T = args.q.dim(0);
    const Tensor a = f.add_rms_norm(args.x, args.delta, w.input_layernorm, d.rms_norm_eps);
    const Tensor q_latent = scratch.take_padded(f.dtype, {T, w.q_a_proj.rows});
    const bool with_query = with_index && args.index_q;
    fork(T);
    this->linear({.x = a, .weight = w.q_a_proj, .out = q_latent});
    beside([&] { launch(LatentInputsArgs{args, f.linear(a, w.kv_a_proj_with_mqa)}); });
    if (with_index) beside([&] { launch(KeyInputsArgs{args, f.linear(a, w.indexer.wk)}); });
    if (with_query) {
      beside([&] {
        this->linear({.x = a, .weight = w.indexer.weights_proj, .out = args.index_weights});
      });
    }
    this->rms_norm(
        {.x = q_latent, .weight = w.q_a_layernorm, .eps = d.rms_norm_eps, .out = q_latent});
    const LinearArgs q = {.x = q_latent, .weight = w.q_b_proj, .out = args.q.flat()};
    const RopeArgs rope_q = {.x = args.q.last(d.qk_rope_head_dim),
                             .positions = args.batch.positions,
                             .table = args.batch.rope_table};
    if (!with_query) {
      this->linear(q);
      join();
      return this->rope(rope_q);
    }
    fork(T);
    this->linear({.x = q_latent, .weight = w.indexer.wq_b, .out = args.index_q.flat()});
    beside([&] { this->linear(q); });
    join();
    const RopeArgs rope_index = {.x = args.index_q.first(d.qk_rope_head_dim),
                                 .positions = args.batch.positions,
                                 .table = args.batch.rope_table,
                                 .interleaved = d.indexer_rope_interleave};
    launch(RopePair{rope_q, rope_index});
  }

  void dense_ffn(const DenseFfnArgs& args, Arena& scratch) override {
    const FfnWeights& w = args.weights;
    if (!is_gate_up(args.delta.dtype, w.gate_proj, w.up_proj)) {
      return Base::dense_ffn(args, scratch);
    }
    const Arena::Scope scope(scratch);
    const Compose f{*this, scratch, args.delta.dtype};
    const Tensor m = f.add_rms_norm(args.x, args.delta, args.norm, args.eps);
    ffn(w, m, scratch.take(m.dtype, {m.dim(0), w.gate_proj.rows}), args.answer());
  }

  // The shared experts, whose answer waits where the whole will be, beside the router.
  void moe(const MoeArgs& args, Arena& scratch) override {
    const FfnWeights& shared = args.weights.shared_experts;
    if (!routes_in_parts(args) || !shared ||
        !is_gate_up(args.delta.dtype, shared.gate_proj, shared.up_proj)) {
      return Base::moe(args, scratch);
    }
    const Arena::Scope scope(scratch);
    const MoeRouteArgs routed = take_routing(args, scratch);
    const Tensor inner = scratch.take(args.delta.dtype, {args.x.dim(0), shared.gate_proj.rows});
    {
      const Arena::Scope of_router(scratch);
      const Tensor parts = split_for_router(routed, scratch);
      fork(args.x.dim(0));
      route_parts(routed, parts, scratch);
      beside([&] { ffn(shared, routed.m, inner, args.answer()); });
    }
    const Tensor answers = scratch.take(args.answer().dtype, {routed.rows.dim(0), args.x.dim(1)});
    // The shared experts of few rows have ended by then, and what comes after a join starts later:
    // better the experts, which wait for their offsets, than what adds up.
    constexpr std::int64_t kFewRows = 32;
    const bool is_few = args.x.dim(0) <= kFewRows;
    if (is_few) join();
    moe_experts(experts_of(routed, answers), scratch);
    if (!is_few) join();
    this->combine({.y = answers,
                   .places = routed.places,
                   .weights = routed.weights,
                   .shared = args.answer(),
                   .out = args.answer()});
  }

  void moe_route(const MoeRouteArgs& args, Arena& scratch) override {
    if (!routes_in_parts(args.moe)) return Base::moe_route(args, scratch);
    const Arena::Scope scope(scratch);
    route_parts(args, split_for_router(args, scratch), scratch);
  }

  void moe_experts(const MoeExpertsArgs& args, Arena& scratch) override {
    const MoeWeights& w = args.weights;
    if (!is_gate_up(args.x.dtype, w.gate_proj, w.up_proj)) {
      return Base::moe_experts(args, scratch);
    }
    const Arena::Scope scope(scratch);
    const Tensor inner = scratch.take(args.x.dtype, {args.out.dim(0), w.gate_proj.rows});
    launch(GroupedGateUpArgs{.x = args.x,
                             .rows = args.rows,
                             .offsets = args.offsets,
                             .gate = w.gate_proj,
                             .up = w.up_proj,
                             .out = inner});
    const GroupedLinearArgs down = {
        .x = inner, .offsets = args.offsets, .weights = w.down_proj, .out = args.out};
    if (!is_product(inner.dtype, w.down_proj)) return this->grouped_linear(down);
    launch(GroupedDownArgs{down});
  }

  void moe_combine(const MoeCombineArgs& args, Arena& scratch) override {
    const FfnWeights& w = args.weights.shared_experts;
    if (!w || !is_gate_up(args.m.dtype, w.gate_proj, w.up_proj)) {
      return Base::moe_combine(args, scratch);
    }
    const Arena::Scope scope(scratch);
    ffn(w, args.m, scratch.take(args.m.dtype, {args.m.dim(0), w.gate_proj.rows}), args.delta);
    this->combine({.y = args.y,
                   .places = args.places,
                   .weights = args.expert_weights,
                   .shared = args.delta,
                   .out = args.delta});
  }

 protected:
  // The launches may run beside all between the last fork() and join(): none writes what another
  // touches. A launch comes before those that wait for it. At most four branches, of `rows` rows.
  virtual void beside(const std::function<void()>& launches) = 0;
  virtual void fork(std::int64_t rows) = 0;
  virtual void join() = 0;
  virtual void launch(const LatentInputsArgs& args) = 0;
  virtual void launch(const KeyInputsArgs& args) = 0;
  virtual void launch(const RopePair& args) = 0;
  virtual void launch(const GateUpArgs& args) = 0;
  virtual void launch(const GroupedGateUpArgs& args) = 0;
  virtual void launch(const GroupedDownArgs& args) = 0;
  virtual void launch(const RouterInputArgs& args) = 0;
  virtual void launch(const RoutePermuteArgs& args) = 0;

 private:
  // out = down(silu(gate(x)) * up(x)) of weights that are is_gate_up().
  void ffn(const FfnWeights& w, const Tensor& x, const Tensor& inner, const Tensor& out) {
    launch(GateUpArgs{.x = x, .gate = w.gate_proj, .up = w.up_proj, .out = inner});
    this->linear({.x = inner, .weight = w.down_proj, .out = out});
  }

  // The router's norm goes to the tensor cores in three parts, which they multiply exactly.
  static bool routes_in_parts(const MoeArgs& args) {
    const Weight& gate = args.weights.gate;
    return args.delta && args.delta.dtype == DType::kBF16 && gate.format == WeightFormat::kBF16 &&
           is_product(args.delta.dtype, gate);
  }
  Tensor split_for_router(const MoeRouteArgs& args, Arena& scratch) {
    const MoeArgs& moe = args.moe;
    const Tensor parts = scratch.take_padded(DType::kBF16, {3 * moe.x.dim(0), moe.x.dim(1)});
    const RouterInputArgs input = {.x = moe.x,
                                   .delta = moe.delta,
                                   .weight = moe.norm,
                                   .eps = moe.eps,
                                   .m = args.m,
                                   .parts = parts};
    launch(input);
    return parts;
  }
  void route_parts(const MoeRouteArgs& args, const Tensor& parts, Arena& scratch) {
    const Weight& gate = args.moe.weights.gate;
    const Tensor logits = scratch.take(DType::kF32, {parts.dim(0), gate.rows});
    this->linear({.x = parts, .weight = gate, .out = logits});
    const Tensor ids = take_routed(args, scratch);
    launch(RoutePermuteArgs{
        .route = routing_of(args, logits, ids),
        .permute = {
            .ids = ids, .rows = args.rows, .offsets = args.offsets, .places = args.places}});
  }
};

}  // namespace glint::cuda
