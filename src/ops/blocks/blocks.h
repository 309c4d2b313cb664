// The six blocks of a GLM-5 forward pass: model/ calls four a layer, and the head. Each has a
// default that composes primitives (in this folder), which is the mathematics; a backend overrides
// one where fusing pays, and conformance demands that the override equals the composition.
//
// Residual stream: `x` [T, hidden] is f32, whatever the type of the activations, and is updated in
// place. A block ends in a `delta`, of the activations' type, that the next block adds to x before
// it normalises, so that the sum, the norm and a collective in between can be fused. Under tensor
// parallelism delta is the sum of all ranks' parts, which model/divided_ops.h adds up.
#pragma once

#include "ops/blocks/weights.h"
#include "ops/cost.h"
#include "ops/kv_layout.h"

namespace glint {

// From the residual stream: the query, the cache rows, and the indexer's query.
//
//   x            += delta, a = rms_norm(x), c = kv_a(a), r = rms_norm(q_a(a))
//   q             = rope(q_b(r))
//   latent cache <- rms_norm(c[0 : latent]), rope(c[latent : latent + rope])
//
// and in a layer with an indexer, unless the selection is given
//
//   index cache  <- rope(layer_norm(wk(a)))
//   index_q       = rope(wq_b(r)),  index_weights = weights_proj(a)      unless they are empty
struct AttentionInArgs {
  const AttentionDims& dims;
  const AttentionWeights& weights;
  Tensor x = {};      // [T, hidden] f32, updated
  Tensor delta = {};  // [T, hidden] f32 or bf16, or empty
  BatchView batch = {};
  LatentCache latent_cache = {};
  IndexCache index_cache = {};
  Tensor q = {};                 // [T, h, nope + rope] written; the last rope dims rotated
  Tensor index_q = {};           // [T, Hi, Di] written; empty where batch.end <= index_topk
  Tensor index_weights = {};     // [T, Hi] f32 written; empty with index_q
  bool selection_given = false;  // keys are chosen already: the indexer does not run
};

// Attention over the keys that select_keys chose, in this layer or an earlier one, head by head:
//
//   out[t,h] = W_UV[h] sparse_mla([W_UK[h]^T q_nope[t,h], q_rope[t,h]], selected[t])
struct AttendArgs {
  const AttentionDims& dims;
  const AttentionWeights& weights;
  Tensor q = {};  // [T, h, nope + rope]
  LatentCache latent_cache = {};
  Tensor selected = {};  // [T, index_topk] i32 slots
  Tensor out = {};       // [T, h, v] written
};

//   delta = o_proj(attended)
struct AttentionOutArgs {
  const AttentionWeights& weights;
  Tensor attended = {};  // [T, h, v]
  Tensor delta = {};     // [T, hidden] written
};

//   x += delta, m = rms_norm(x), delta = down(silu(gate(m)) * up(m))
struct DenseFfnArgs {
  const FfnWeights& weights;
  Tensor norm = {};  // [hidden]: post_attention_layernorm
  float eps = 0;
  Tensor x = {};      // [T, hidden] f32, updated
  Tensor delta = {};  // [T, hidden], read then written
  // [T, hidden] f32, written instead of delta: a part of a sum over ranks, with nothing rounded
  // behind the products' inner rows. Empty: there is no such sum.
  Tensor part = {};

  const Tensor& answer() const { return part ? part : delta; }
};

//   x += delta, m = rms_norm(x), (e, w) = route(gate(m))
//   delta = sum_j w[j] * expert[e[j]](m) + shared(m)        each an FFN as in dense_ffn
//
// The router sees m in f32: rounded to bf16, it would choose other experts where two nearly tie.
struct MoeArgs {
  const MoeWeights& weights;
  Tensor norm = {};
  float eps = 0;
  int num_experts_per_tok = 0;
  int n_group = 1, topk_group = 1;
  bool norm_topk_prob = true;
  float routed_scaling_factor = 1;
  Tensor x = {};              // [T, hidden] f32, updated
  Tensor delta = {};          // [T, hidden], read then written
  Tensor part = {};           // as DenseFfnArgs has it, of each expert's answer too
  Tensor positions = {};      // [T] i32, as RouteArgs has them; empty: no row is padding
  Tensor routed = {};         // [T, k] i32, written: the experts chosen; empty if not wanted
  bool routed_given = false;  // `routed` is read: the experts that an earlier pass chose

  const Tensor& answer() const { return part ? part : delta; }
};

// moe in the parts between which ranks that share the experts exchange rows (model/glm.cc); the
// same bits as moe. The first: x += delta, m = rms_norm(x), (e, w) = route(gate(m)), permute.
struct MoeRouteArgs {
  const MoeArgs& moe;
  Tensor m = {};        // [T, hidden] written; dtype of delta; rows may be strided
  Tensor weights = {};  // [T, k] f32 written
  Tensor rows = {}, offsets = {}, places = {};  // written, as PermuteArgs has them
};

// The second: expert by expert, as grouped_linear has its rows.
//   out[r] = expert[e](x[rows[r]])
struct MoeExpertsArgs {
  const MoeWeights& weights;
  Tensor x = {};                   // [S, hidden]
  Tensor rows = {}, offsets = {};  // [R], [experts here + 1]
  Tensor out = {};                 // [R, hidden] written; dtype of x or f32
};

// The third: delta = sum_j w[j] y[places[j]] + shared(m).
struct MoeCombineArgs {
  const MoeWeights& weights;
  Tensor m = {};
  Tensor y = {};                            // [T * k, hidden]
  Tensor places = {}, expert_weights = {};  // [T, k]
  Tensor delta = {};                        // [T, hidden] written; dtype of y
};

//   x += delta, hidden = rms_norm(x), logits = lm_head(hidden[rows])
struct HeadArgs {
  Tensor norm = {};
  float eps = 0;
  Weight lm_head = {};  // [V, hidden]
  Tensor x = {};        // [T, hidden] f32, updated
  Tensor delta = {};    // [T, hidden] or empty
  Tensor rows = {};     // [R] i32 or -1: padding; R may be 0 (then `logits` is empty)
  Tensor hidden = {};   // [T, hidden] written: what the MTP layer consumes
  Tensor logits = {};   // [R, V] f32 written
};

// Bounds on the roundings in between: an override against its composition, and either against the
// reference. Cache rows in fp8 move by whole steps of e4m3 where a rounding falls the other way.
inline constexpr OpTolerance kBlockTolerance = {.f32 = 1e-5, .bf16 = 1.2e-2};
inline constexpr double kFp8BlockTolerance = 2e-2;

}  // namespace glint
