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

class ExpertTables;

// Everything a pass works with; it outlives the pass.
struct Model {
  Ops& ops;
  Mesh mesh;
  const ModelPartition& partition;
  const ModelConfig& config;
  const ModelWeights& weights;
  KvStore& kv;
  DType activations = DType::kBF16;
  Activity& activity;
  const ExpertTables* expert_tables = nullptr;  // where experts move between ranks
};

ModelDims dims_of(const ModelConfig& config);

// Optional callbacks of a pass, for tests and diagnosis; empty ones cost nothing.
struct Taps {
  // The residual stream [T, hidden] (f32) that enters layer `layer`; at num_hidden_layers, the
  // head.
  std::function<void(int layer, const Tensor& residual)> residual = {};
  // The keys [T, index_topk] (slots, or -1) that layer `layer` attended to.
  std::function<void(int layer, const Tensor& selected)> selected = {};
};

// The residual stream between two blocks: x [T, hidden] in f32, and the last block's answer, which
// the next block adds before it normalises.
struct Stream {
  Tensor x = {};
  Tensor delta = {};       // [T, hidden], of the activations' type
  bool has_delta = false;  // false before the first block

  Tensor pending() const { return has_delta ? delta : Tensor{}; }
};

// Experts and keys of a layer that an earlier pass chose: routing replay, a layer computed again
// for its gradient, and later draft steps, which keep the first one's selection.
struct LayerChoices {
  Tensor routed = {};            // [T, k] i32: the experts chosen, written; or empty
  bool routed_given = false;     // `routed` is read
  bool selection_given = false;  // Pass::selected is read, and the indexer does not run
};

// A forward pass, layer by layer, for callers that stop in between: stages of a pipeline, training,
// which computes a layer again before its gradient. forward() is this class from end to end.
class Pass {
 public:
  // Over T tokens. The stream's memory is taken in the arena's present scope, and that of
  // `selected` if it is empty.
  Pass(const Model& model, const BatchView& batch, std::int64_t T, Arena& arena,
       const Tensor& selected = {});

  void embed(const Tensor& ids);  // [T] i32
  void layer(int i, const LayerChoices& choices = {});
  // A layer that is not among the model's, as the MTP layer's; `i` names its caches.
  void layer(int i, const LayerWeights& weights, const LayerChoices& choices);
  // The halves of a layer: attention leaves stream.delta, which feed_forward adds before its own.
  void attention(int i, const LayerWeights& weights, const LayerChoices& choices);
  void feed_forward(int i, const LayerWeights& weights, const LayerChoices& choices);
  // `routed` [MoE layers of the range * T, k] i32: the experts chosen, written; or empty.
  void layers(LayerRange range, const Tensor& routed = {}, const Taps* taps = nullptr);
  // x with the last block's answer added: the input of the next layer.
  const Tensor& residual();
  // Between stages: what enters the next layer, the selection where that layer has none of its own,
  // and the experts `routed` that were chosen before it.
  void send(int to, const Tensor& routed);
  void receive(int from, const Tensor& routed);
  // hidden [T, hidden] = rms_norm(residual, norm), logits [R, V] of `rows` [R]: HeadArgs.
  void head(const Tensor& norm, const Tensor& rows, const Tensor& hidden, const Tensor& logits);

  Stream stream;
  // [T, index_topk] slots: layers with an indexer write them, the others read the last selection.
  Tensor selected;

 private:
  const Model& m;
  const BatchView& batch;
  Arena& arena;
};

struct ForwardArgs {
  Tensor token_ids = {};  // [T] i32
  BatchView batch = {};
  Tensor logit_rows = {};  // [R] i32: rows that need logits; may be empty
  // Results, in the arena of the caller's scope:
  Tensor hidden = {};  // [T, hidden] written: after the final norm
  Tensor logits = {};  // [R, V] f32 written; empty when R is 0
  // [MoE layers up to this stage's last * T, num_experts_per_tok] i32 written; empty: not wanted
  Tensor routed = {};
  const Taps* taps = nullptr;
};

// Runs this stage's layers, and the head on the last stage, writing the caches of these T tokens.
// Collective over the mesh. What the head would write stays unwritten on earlier stages.
void forward(const Model& model, const ForwardArgs& args, Arena& arena);

// The MTP layer: row t, at position p, sees token p + 1 and the hidden state of position p (after
// the final norm; or, in a later draft step, this function's own `hidden`), and predicts token p
// + 2.
struct MtpArgs {
  Tensor next_ids = {};  // [T] i32: token p + 1; -1 where p == 0, whose embedding is zero
  Tensor target = {};    // [T, hidden]
  BatchView batch = {};
  Tensor logit_rows = {};
  // [T, index_topk] i32 slots: written; or read: those that an earlier draft step of these rows
  // selected.
  Tensor selected = {};
  bool selection_given = false;
  Tensor routed = {};  // [T, num_experts_per_tok] i32, if wanted: written; or read, if given
  bool routed_given = false;
  Tensor hidden = {};  // [T, hidden] written: after shared_head.norm
  Tensor logits = {};  // [R, V] f32 written
};
void forward_mtp(const Model& model, const MtpArgs& args, Arena& arena);

}  // namespace glint
