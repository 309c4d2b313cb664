#include "model/glm.h"

namespace glint {
namespace {

AttentionDims attention_dims(const ModelConfig& c, const Mesh& mesh) {
  return {.heads = c.num_attention_heads / mesh.tp.size(),
          .qk_nope_head_dim = static_cast<int>(c.qk_nope_head_dim),
          .qk_rope_head_dim = static_cast<int>(c.qk_rope_head_dim),
          .v_head_dim = static_cast<int>(c.v_head_dim),
          .kv_lora_rank = static_cast<int>(c.kv_lora_rank),
          .index_n_heads = c.index_n_heads,
          .index_head_dim = static_cast<int>(c.index_head_dim),
          .index_topk = static_cast<int>(c.index_topk),
          .rms_norm_eps = c.rms_norm_eps,
          .softmax_scale = c.softmax_scale,
          .indexer_rope_interleave = c.indexer_rope_interleave};
}

// The residual stream on its way through the layers: x [T, hidden] in f32, and the last block's
// answer, not yet added.
struct Stream {
  Tensor x = {};
  Tensor delta = {};       // memory for answers
  bool has_delta = false;  // false before the first block

  Tensor pending() const { return has_delta ? delta : Tensor{}; }
};

Stream make_stream(const Model& m, std::int64_t T, Arena& arena) {
  const std::int64_t D = m.config.hidden_size;
  return {.x = arena.take(DType::kF32, {T, D}), .delta = arena.take(m.activations, {T, D})};
}

// What the layers of one pass share.
struct Pass {
  const Model& m;
  const BatchView& batch;
  Arena& arena;
  Stream stream;
  // [T, index_topk] slots: layers with an indexer write them, the others read the last selection.
  Tensor selected;

  void attention(int layer, const AttentionWeights& weights);
  void feed_forward(int layer, const LayerWeights& weights, const Tensor& routed);
  void show_residual(int layer, const Taps* taps);
};

// delta = attention(norm(x + delta))
void Pass::attention(int layer, const AttentionWeights& weights) {
  const Arena::Scope scope(arena);
  const AttentionDims dims = attention_dims(m.config, m.mesh);
  const LayerCache& cache = m.kv.layer(layer);
  const std::int64_t T = stream.x.dim(0);
  const Tensor q = arena.take_padded(
      m.activations, {T, dims.heads, dims.qk_nope_head_dim + dims.qk_rope_head_dim});
  Tensor index_q, index_weights;
  if (weights.indexer && batch.end > dims.index_topk) {
    index_q = arena.take(m.activations, {T, dims.index_n_heads, dims.index_head_dim});
    index_weights = arena.take(DType::kF32, {T, dims.index_n_heads});
  }
  m.activity.begin("attention_in", layer);
  m.ops.attention_in({.dims = dims,
                      .weights = weights,
                      .x = stream.x,
                      .delta = stream.pending(),
                      .batch = batch,
                      .latent_cache = cache.latent,
                      .index_cache = cache.index,
                      .q = q,
                      .index_q = index_q,
                      .index_weights = index_weights},
                     arena);
  const Tensor attended = arena.take_padded(m.activations, {T, dims.heads, dims.v_head_dim});
  m.activity.begin("select_and_attend", layer);
  m.ops.select_and_attend({.dims = dims,
                           .weights = weights,
                           .q = q,
                           .index_q = index_q,
                           .index_weights = index_weights,
                           .batch = batch,
                           .latent_cache = cache.latent,
                           .index_cache = cache.index,
                           .selected = selected,
                           .out = attended},
                          arena);
  m.activity.begin("attention_out", layer);
  m.ops.attention_out({.weights = weights, .attended = attended, .delta = stream.delta}, arena);
  m.mesh.tp.all_reduce(stream.delta);
  stream.has_delta = true;
}

// delta = ffn(norm(x + delta)). `routed` [T, k]: where the experts chosen go, or empty.
void Pass::feed_forward(int layer, const LayerWeights& weights, const Tensor& routed) {
  const ModelConfig& c = m.config;
  const bool dense = c.layers[layer].is_dense();
  m.activity.begin(dense ? "dense_ffn" : "moe", layer);
  if (dense) {
    m.ops.dense_ffn({.weights = weights.mlp,
                     .norm = weights.post_attention_layernorm,
                     .eps = c.rms_norm_eps,
                     .x = stream.x,
                     .delta = stream.delta},
                    arena);
  } else {
    m.ops.moe({.weights = weights.moe,
               .norm = weights.post_attention_layernorm,
               .eps = c.rms_norm_eps,
               .num_experts_per_tok = c.num_experts_per_tok,
               .n_group = c.n_group,
               .topk_group = c.topk_group,
               .norm_topk_prob = c.norm_topk_prob,
               .routed_scaling_factor = c.routed_scaling_factor,
               .x = stream.x,
               .delta = stream.delta,
               .positions = batch.positions,
               .routed = routed},
              arena);
  }
  m.mesh.tp.all_reduce(stream.delta);
}

// What enters a layer, for the tap. The next block would add delta itself, to the same sum.
void Pass::show_residual(int layer, const Taps* taps) {
  if (!taps || !taps->residual) return;
  if (stream.has_delta) m.ops.add({.x = stream.x, .y = stream.delta});
  stream.has_delta = false;
  taps->residual(layer, stream.x);
}

}  // namespace

void forward(const Model& m, const ForwardArgs& args, Arena& arena) {
  const Arena::Scope scope(arena);
  const ModelConfig& c = m.config;
  const std::int64_t T = args.token_ids.dim(0);
  Pass pass = {.m = m,
               .batch = args.batch,
               .arena = arena,
               .stream = make_stream(m, T, arena),
               .selected = arena.take(DType::kI32, {T, c.index_topk})};
  m.activity.begin("embed");
  m.ops.embed({.ids = args.token_ids, .table = m.weights.embed_tokens, .out = pass.stream.x});
  std::int64_t moe_layer = 0;
  for (int i = 0; i < c.num_hidden_layers; ++i) {
    pass.show_residual(i, args.taps);
    pass.attention(i, m.weights.layers[i].attention);
    if (args.taps && args.taps->selected) args.taps->selected(i, pass.selected);
    Tensor routed;
    if (args.routed && !c.layers[i].is_dense()) routed = args.routed.slice(0, T * moe_layer++, T);
    pass.feed_forward(i, m.weights.layers[i], routed);
  }
  pass.show_residual(c.num_hidden_layers, args.taps);
  m.activity.begin("head");
  m.ops.head({.norm = m.weights.norm,
              .eps = c.rms_norm_eps,
              .lm_head = m.weights.lm_head,
              .x = pass.stream.x,
              .delta = pass.stream.pending(),
              .rows = args.logit_rows,
              .hidden = args.hidden,
              .logits = args.logits},
             arena);
}

void forward_mtp(const Model& m, const MtpArgs& args, Arena& arena) {
  const Arena::Scope scope(arena);
  const ModelConfig& c = m.config;
  const int layer = c.num_hidden_layers;
  const MtpWeights& w = m.weights.mtp[0];
  const std::int64_t T = args.next_ids.dim(0), D = c.hidden_size;

  m.activity.begin("mtp_in", layer);
  const Tensor embedded = arena.take(m.activations, {T, D});
  m.ops.embed({.ids = args.next_ids, .table = m.weights.embed_tokens, .out = embedded});
  const Tensor both = arena.take(m.activations, {T, 2 * D});
  m.ops.rms_norm({.x = embedded, .weight = w.enorm, .eps = c.rms_norm_eps, .out = both.first(D)});
  m.ops.rms_norm({.x = args.target, .weight = w.hnorm, .eps = c.rms_norm_eps, .out = both.last(D)});
  Pass pass = {.m = m,
               .batch = args.batch,
               .arena = arena,
               .stream = make_stream(m, T, arena),
               .selected = args.selected};
  m.ops.linear({.x = both, .weight = w.eh_proj, .out = pass.stream.x});

  // A reused selection makes this pass one of a layer without an indexer, but for the index keys:
  // those of later draft steps are not written, and are overwritten by the pass over the verified
  // tokens anyway.
  AttentionWeights weights = w.layer.attention;
  if (args.reuse_selected) weights.indexer = {};
  pass.attention(layer, weights);
  pass.feed_forward(layer, w.layer, {});
  m.activity.begin("mtp_head");
  m.ops.head({.norm = w.shared_head_norm,
              .eps = c.rms_norm_eps,
              .lm_head = m.weights.lm_head,
              .x = pass.stream.x,
              .delta = pass.stream.delta,
              .rows = args.logit_rows,
              .hidden = args.hidden,
              .logits = args.logits},
             arena);
}

}  // namespace glint
