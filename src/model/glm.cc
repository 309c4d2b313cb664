#include "model/glm.h"

#include "base/ceil_div.h"
#include "model/moe_over_ranks.h"

namespace glint {
namespace {

// For a rank with `heads` of the heads.
AttentionDims attention_dims(const ModelConfig& c, int heads) {
  return {.heads = heads,
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

}  // namespace

ModelDims dims_of(const ModelConfig& config) {
  return {.attention = attention_dims(config, config.num_attention_heads),
          .n_routed_experts = config.n_routed_experts,
          .num_experts_per_tok = config.num_experts_per_tok};
}

Pass::Pass(const Model& model, const BatchView& batch, std::int64_t T, Arena& arena,
           const Tensor& selected)
    : selected(selected), m(model), batch(batch), arena(arena) {
  const std::int64_t D = m.config.hidden_size;
  stream.x = arena.take(DType::kF32, {T, D});
  const std::int64_t ranks = m.mesh.tp->size();  // which moe_over_ranks() gives as many rows each
  stream.delta = arena.take(m.activations, {round_up(T, ranks), D}).slice(0, 0, T);
  if (!selected) this->selected = arena.take(DType::kI32, {T, m.config.index_topk});
}

void Pass::embed(const Tensor& ids) {
  m.activity.begin("embed");
  m.ops.embed({.ids = ids, .table = m.weights.embed_tokens, .out = stream.x});
}

void Pass::layer(int i, const LayerChoices& choices) { layer(i, m.weights.layers[i], choices); }

void Pass::layer(int i, const LayerWeights& weights, const LayerChoices& choices) {
  attention(i, weights, choices);
  feed_forward(i, weights, choices);
}

void Pass::layers(LayerRange range, const Tensor& routed, const Taps* taps) {
  const std::int64_t T = stream.x.dim(0);
  std::int64_t moe_layer = 0;
  for (int i = range.begin; i < range.end; ++i) {
    if (taps && taps->residual) taps->residual(i, residual());
    LayerChoices choices;
    if (routed && !m.config.layers[i].is_dense()) {
      choices.routed = routed.slice(0, T * moe_layer++, T);
    }
    layer(i, choices);
    if (taps && taps->selected) taps->selected(i, selected);
  }
}

// The next block would add delta itself, to the same sum.
const Tensor& Pass::residual() {
  if (stream.has_delta) m.ops.add({.x = stream.x, .y = stream.delta});
  stream.has_delta = false;
  return stream.x;
}

void Pass::head(const Tensor& norm, const Tensor& rows, const Tensor& hidden,
                const Tensor& logits) {
  m.ops.head({.norm = norm,
              .eps = m.config.rms_norm_eps,
              .lm_head = m.weights.lm_head,
              .x = stream.x,
              .delta = stream.pending(),
              .rows = rows,
              .hidden = hidden,
              .logits = logits},
             arena);
}

// delta = attention(norm(x + delta))
void Pass::attention(int layer, const LayerWeights& of_layer, const LayerChoices& choices) {
  const AttentionWeights& weights = of_layer.attention;
  const Arena::Scope scope(arena);
  const AttentionDims dims = attention_dims(m.config, m.partition.heads.count);
  const LayerCache& cache = m.kv.layer(layer);
  const std::int64_t T = stream.x.dim(0);
  const Tensor q = arena.take_padded(
      m.activations, {T, dims.heads, dims.qk_nope_head_dim + dims.qk_rope_head_dim});
  Tensor index_q, index_weights;
  if (weights.indexer && !choices.selection_given && batch.end > dims.index_topk) {
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
                      .index_weights = index_weights,
                      .selection_given = choices.selection_given},
                     arena);
  const Tensor attended = arena.take_padded(m.activations, {T, dims.heads, dims.v_head_dim});
  if (weights.indexer && !choices.selection_given) {
    m.activity.begin("select_keys", layer);
    m.ops.select_keys({.q = index_q,
                       .weights = index_weights,
                       .batch = batch,
                       .cache = cache.index,
                       .out = selected});
  }
  m.activity.begin("attend", layer);
  m.ops.attend({.dims = dims,
                .weights = weights,
                .q = q,
                .latent_cache = cache.latent,
                .selected = selected,
                .out = attended},
               arena);
  m.activity.begin("attention_out", layer);
  m.ops.attention_out({.weights = weights, .attended = attended, .delta = stream.delta}, arena);
  stream.has_delta = true;
}

// delta = ffn(norm(x + delta))
void Pass::feed_forward(int layer, const LayerWeights& weights, const LayerChoices& choices) {
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
    return;
  }
  const MoeArgs args = {.weights = weights.moe,
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
                        .routed = choices.routed,
                        .routed_given = choices.routed_given};
  m.mesh.ep->size() == 1 ? m.ops.moe(args, arena) : moe_over_ranks(m, batch, layer, args, arena);
}

void Pass::send(int to, const Tensor& routed) {
  m.mesh.pp->send(residual(), to);
  if (!m.config.layers[m.partition.layers.end].has_indexer) m.mesh.pp->send(selected, to);
  if (routed && routed.size() > 0) m.mesh.pp->send(routed, to);
}

void Pass::receive(int from, const Tensor& routed) {
  m.mesh.pp->recv(stream.x, from);
  if (!m.config.layers[m.partition.layers.begin].has_indexer) m.mesh.pp->recv(selected, from);
  if (routed && routed.size() > 0) m.mesh.pp->recv(routed, from);
}

void forward(const Model& m, const ForwardArgs& args, Arena& arena) {
  const Arena::Scope scope(arena);
  const int layers = m.config.num_hidden_layers;
  const std::int64_t T = args.token_ids.dim(0);
  const std::int64_t before = T * m.config.num_moe_layers_before(m.partition.layers.begin);
  Tensor earlier, own;
  if (args.routed) {
    earlier = args.routed.slice(0, 0, before);
    own = args.routed.slice(0, before, args.routed.dim(0) - before);
  }
  Pass pass(m, args.batch, T, arena);
  m.partition.is_first() ? pass.embed(args.token_ids)
                         : pass.receive(m.partition.stage - 1, earlier);
  pass.layers(m.partition.layers, own, args.taps);
  if (!m.partition.is_last()) return pass.send(m.partition.stage + 1, args.routed);
  if (args.taps && args.taps->residual) args.taps->residual(layers, pass.residual());
  m.activity.begin("head");
  pass.head(m.weights.norm, args.logit_rows, args.hidden, args.logits);
}

void forward_mtp(const Model& m, const MtpArgs& args, Arena& arena) {
  const Arena::Scope scope(arena);
  const ModelConfig& c = m.config;
  const int layer = c.num_hidden_layers;
  const MtpWeights& w = m.weights.mtp[0];
  const std::int64_t T = args.next_ids.dim(0), D = c.hidden_size;

  m.activity.begin("mtp_in", layer);
  const Tensor embedded = arena.take(DType::kF32, {T, D});
  m.ops.embed({.ids = args.next_ids, .table = m.weights.embed_tokens, .out = embedded});
  const Tensor both = arena.take(m.activations, {T, 2 * D});
  m.ops.rms_norm({.x = embedded, .weight = w.enorm, .eps = c.rms_norm_eps, .out = both.first(D)});
  m.ops.rms_norm({.x = args.target, .weight = w.hnorm, .eps = c.rms_norm_eps, .out = both.last(D)});
  Pass pass(m, args.batch, T, arena, args.selected);
  m.ops.linear({.x = both, .weight = w.eh_proj, .out = pass.stream.x});
  // The index keys of later draft steps are not written; the pass over the verified tokens writes
  // these slots anyway.
  pass.layer(layer, w.layer,
             {.routed = args.routed,
              .routed_given = args.routed_given,
              .selection_given = args.selection_given});
  m.activity.begin("mtp_head");
  pass.head(w.shared_head_norm, args.logit_rows, args.hidden, args.logits);
}

}  // namespace glint
