// GLM-5, once: the forward pass over any batch, as calls of blocks and collectives.
#pragma once

#include <functional>

#include "base/activity.h"
#include "comm/comm.h"
#include "model/config.h"
#include "model/kv_store.h"
#include "model/weights.h"
#include "ops/ops.h"

namespace glint {

// What a pass works with; all of it outlives the pass.
struct Model {
  Ops& ops;
  Mesh mesh;
  const ModelConfig& config;
  const ModelWeights& weights;
  KvStore& kv;
  DType activations = DType::kBF16;
  Activity& activity;
};

// What a pass shows of its inside; what is empty costs nothing.
struct Taps {
  // The residual stream [T, hidden] (f32) that enters layer `layer`; at num_hidden_layers, the
  // head.
  std::function<void(int layer, const Tensor& residual)> residual = {};
  // The keys [T, index_topk] (slots, or -1) that layer `layer` attended to.
  std::function<void(int layer, const Tensor& selected)> selected = {};
};

struct ForwardArgs {
  Tensor token_ids = {};  // [T] i32
  BatchView batch = {};
  Tensor logit_rows = {};  // [R] i32: rows that need logits; may be empty
  // Results, in the arena of the caller's scope:
  Tensor hidden = {};  // [T, hidden] written: after the final norm
  Tensor logits = {};  // [R, V] f32 written; empty when R is 0
  Tensor routed = {};  // [MoE layers * T, num_experts_per_tok] i32 written; empty: not wanted
  const Taps* taps = nullptr;
};

// Runs layers 0 .. num_hidden_layers - 1 and the head, writing the caches of these T tokens.
void forward(const Model& model, const ForwardArgs& args, Arena& arena);

// The MTP layer: row t, at position p, sees token p + 1 and the hidden state of position p (after
// the final norm; or, in a later draft step, this function's own `hidden`), and predicts token p
// + 2.
struct MtpArgs {
  Tensor next_ids = {};  // [T] i32: token p + 1; -1 where p == 0, whose embedding is zero
  Tensor target = {};    // [T, hidden]
  BatchView batch = {};
  Tensor logit_rows = {};
  // [T, index_topk] i32 slots: written; or, if `reuse_selected`, read: those that an earlier draft
  // step of these rows selected.
  Tensor selected = {};
  bool reuse_selected = false;
  Tensor hidden = {};  // [T, hidden] written: after shared_head.norm
  Tensor logits = {};  // [R, V] f32 written
};
void forward_mtp(const Model& model, const MtpArgs& args, Arena& arena);

}  // namespace glint
