// Attention: MLA over the keys that DeepSeek Sparse Attention selects, in the absorbed form: keys
// and values stay latent, so one cache row serves all heads.
#include "ops/compose.h"

namespace glint {

namespace {

// [T, R] as the one-head [T, 1, R] that rope takes.
Tensor one_head(const Tensor& x) { return x.heads(1); }

}  // namespace

void Ops::attention_in(const AttentionInArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  const Compose f{*this, scratch, args.q.dtype};
  const AttentionDims& d = args.dims;
  const AttentionWeights& w = args.weights;
  const BatchView& batch = args.batch;
  const Tensor a = f.add_rms_norm(args.x, args.delta, w.input_layernorm, d.rms_norm_eps);

  const Tensor q_latent = f.rms_norm(f.linear(a, w.q_a_proj), w.q_a_layernorm, d.rms_norm_eps);
  linear({.x = q_latent, .weight = w.q_b_proj, .out = args.q.flat()});
  rope({.x = args.q.last(d.qk_rope_head_dim),
        .positions = batch.positions,
        .table = batch.rope_table});

  const Tensor kv = f.linear(a, w.kv_a_proj_with_mqa);
  const Tensor latent = f.rms_norm(kv.first(d.kv_lora_rank), w.kv_a_layernorm, d.rms_norm_eps);
  const Tensor k_rope = kv.last(d.qk_rope_head_dim);
  rope({.x = one_head(k_rope), .positions = batch.positions, .table = batch.rope_table});
  write_latent(
      {.latent = latent, .k_rope = k_rope, .slots = batch.slots, .cache = args.latent_cache});

  if (!w.indexer || args.selection_given) return;
  const Tensor projected = f.linear(a, w.indexer.wk);
  const Tensor k = scratch.take(f.dtype, {projected.dim(0), projected.dim(1)});
  layer_norm({.x = projected, .weight = w.indexer.k_norm, .bias = w.indexer.k_norm_bias, .out = k});
  rope({.x = one_head(k.first(d.qk_rope_head_dim)),
        .positions = batch.positions,
        .table = batch.rope_table,
        .interleaved = d.indexer_rope_interleave});
  write_index({.k = k, .slots = batch.slots, .cache = args.index_cache});
  if (!args.index_q) return;
  // The indexer's heads are not divided: every rank must select the same keys.
  linear({.x = q_latent, .weight = w.indexer.wq_b, .out = args.index_q.flat()});
  rope({.x = args.index_q.first(d.qk_rope_head_dim),
        .positions = batch.positions,
        .table = batch.rope_table,
        .interleaved = d.indexer_rope_interleave});
  linear({.x = a, .weight = w.indexer.weights_proj, .out = args.index_weights});
}

void Ops::attend(const AttendArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  const AttentionDims& d = args.dims;
  const std::int64_t T = args.q.dim(0), latent = d.kv_lora_rank;
  // Absorption: W_UK^T q_nope turns q . k_nope into a dot product with the cached latent.
  const Tensor absorbed = scratch.take_padded(args.q.dtype, {T, d.heads, latent});
  per_head({.x = args.q.first(d.qk_nope_head_dim), .weights = args.weights.w_uk, .out = absorbed});
  const Tensor context = scratch.take_padded(args.q.dtype, {T, d.heads, latent});
  sparse_mla({.q_latent = absorbed,
              .q_rope = args.q.last(d.qk_rope_head_dim),
              .kv = args.latent_cache,
              .indices = args.selected,
              .softmax_scale = d.softmax_scale,
              .out = context});
  per_head({.x = context, .weights = args.weights.w_uv, .out = args.out});
}

void Ops::attention_out(const AttentionOutArgs& args, Arena&) {
  linear({.x = args.attended.flat(), .weight = args.weights.o_proj, .out = args.delta});
}

}  // namespace glint
