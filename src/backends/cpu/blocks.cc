// Blocks with fewer phases than their composition: products that share x run together, and gate, up
// and silu are one product. The arithmetic of every output is the composition's, bit by bit.
#include "backends/cpu/block_memory.h"
#include "backends/cpu/cpu_ops.h"
#include "ops/compose.h"

namespace glint {

using cpu::Product;
using cpu::TypedRows;

void CpuOps::attention_in(const AttentionInArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  const Compose f{*this, scratch, args.q.dtype};
  const AttentionDims& d = args.dims;
  const AttentionWeights& w = args.weights;
  const IndexerWeights& indexer = w.indexer;
  const BatchView& batch = args.batch;
  const bool indexes = indexer && !args.selection_given;
  const bool scores_keys = indexes && args.index_q;
  const Tensor a = f.add_rms_norm(args.x, args.delta, w.input_layernorm, d.rms_norm_eps);

  std::vector<Product> products;
  TypedRows from_a(products_, a, x_);
  const auto project = [&](TypedRows& x, const Weight& weight, const Tensor& out) {
    products.push_back({.weight = weight, .x = x.of(weight), .out = out});
  };
  const auto take = [&](const Weight& weight) {
    return scratch.take(f.dtype, {a.dim(0), weight.rows});
  };
  const Tensor q_raw = take(w.q_a_proj), kv = take(w.kv_a_proj_with_mqa);
  project(from_a, w.q_a_proj, q_raw);
  project(from_a, w.kv_a_proj_with_mqa, kv);
  Tensor projected;
  if (indexes) {
    projected = take(indexer.wk);
    project(from_a, indexer.wk, projected);
    if (scores_keys) project(from_a, indexer.weights_proj, args.index_weights);
  }
  products_.run(products);

  const Tensor q_latent = f.rms_norm(q_raw, w.q_a_layernorm, d.rms_norm_eps);
  products.clear();
  TypedRows from_q(products_, q_latent, x_);
  project(from_q, w.q_b_proj, args.q.flat());
  if (scores_keys) project(from_q, indexer.wq_b, args.index_q.flat());
  products_.run(products);

  const auto rotate = [&](const Tensor& x, bool interleaved) {
    rope({.x = x,
          .positions = batch.positions,
          .table = batch.rope_table,
          .interleaved = interleaved});
  };
  rotate(args.q.last(d.qk_rope_head_dim), true);
  const Tensor latent = f.rms_norm(kv.first(d.kv_lora_rank), w.kv_a_layernorm, d.rms_norm_eps);
  const Tensor k_rope = kv.last(d.qk_rope_head_dim);
  rotate(k_rope.heads(1), true);
  write_latent(
      {.latent = latent, .k_rope = k_rope, .slots = batch.slots, .cache = args.latent_cache});

  if (!indexes) return;
  if (scores_keys) rotate(args.index_q.first(d.qk_rope_head_dim), d.indexer_rope_interleave);
  const Tensor k = scratch.take(f.dtype, {a.dim(0), projected.dim(1)});
  layer_norm({.x = projected, .weight = indexer.k_norm, .bias = indexer.k_norm_bias, .out = k});
  rotate(k.first(d.qk_rope_head_dim).heads(1), d.indexer_rope_interleave);
  write_index({.k = k, .slots = batch.slots, .cache = args.index_cache});
}

void CpuOps::dense_ffn(const DenseFfnArgs& args, Arena& scratch) {
  const FfnWeights& w = args.weights;
  const DType dtype = args.delta.dtype;
  if (!cpu::fuses(products_, dtype, w.gate_proj, w.up_proj)) return Ops::dense_ffn(args, scratch);
  const Arena::Scope scope(scratch);
  const Compose f{*this, scratch, dtype};
  const Tensor m = f.add_rms_norm(args.x, args.delta, args.norm, args.eps);
  const Tensor inner = cpu::take_ffn_inner(args, scratch);
  TypedRows x(products_, m, x_);
  const Product one[] = {
      {.weight = w.gate_proj, .up = w.up_proj, .x = x.of(w.gate_proj), .out = inner}};
  products_.run(one);
  linear({.x = inner, .weight = w.down_proj, .out = args.answer()});
}

void CpuOps::moe(const MoeArgs& args, Arena& scratch) {
  const MoeWeights& w = args.weights;
  const FfnWeights& s = w.shared_experts;
  const DType dtype = args.delta.dtype;
  const std::int64_t E = w.gate_proj.count;
  if (!cpu::fuses(products_, dtype, w)) return Ops::moe(args, scratch);

  const Arena::Scope scope(scratch);
  const std::int64_t T = args.x.dim(0);
  const MoeRouteArgs routed = take_routing(args, scratch);
  moe_route(routed, scratch);
  const Tensor& m = routed.m;

  const cpu::MoeMemory memory = cpu::take_moe(args, scratch);
  const Tensor &inner = memory.inner, &answers = memory.answers;
  const Tensor &shared_inner = memory.shared_inner, &shared = memory.shared;
  const std::int32_t* const first = routed.offsets.ptr<std::int32_t>();
  const std::int32_t* const sources = routed.rows.ptr<std::int32_t>();
  const auto each_expert = [&](auto&& add) {
    for (std::int64_t e = 0; e < E; ++e) {
      cpu::for_pieces(first[e], first[e + 1],
                      [&](std::int64_t begin, std::int64_t count) { add(e, begin, count); });
    }
  };

  std::vector<Product> products;
  TypedRows x(products_, m, x_);
  if (s) {
    products.push_back(
        {.weight = s.gate_proj, .up = s.up_proj, .x = x.of(s.gate_proj), .out = shared_inner});
  }
  each_expert([&](std::int64_t e, std::int64_t begin, std::int64_t count) {
    const Weight gate = w.gate_proj[e];
    Product product = {.weight = gate, .up = w.up_proj[e], .out = inner.slice(0, begin, count)};
    if (T == 1) {  // each of its experts reads the same row
      product.x = x.of(gate);
    } else {
      product.source = {.x = m, .places = sources + begin, .count = count};
    }
    products.push_back(product);
  });
  products_.run(products);

  products.clear();
  TypedRows from_inner(products_, inner, expert_x_);
  if (s) {
    TypedRows from_shared(products_, shared_inner, x_);
    products.push_back({.weight = s.down_proj, .x = from_shared.of(s.down_proj), .out = shared});
  }
  each_expert([&](std::int64_t e, std::int64_t begin, std::int64_t count) {
    const Weight down = w.down_proj[e];
    products.push_back({.weight = down,
                        .x = from_inner.of(down, begin, count),
                        .out = answers.slice(0, begin, count)});
  });
  products_.run(products);
  combine({.y = answers,
           .places = routed.places,
           .weights = routed.weights,
           .shared = shared,
           .out = args.answer()});
}

}  // namespace glint
