// The weights of a GLM-5 model, by the names of its checkpoint, and where they are found in one.
// place_weights.h then puts them where the backend wants them.
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/config.h"
#include "model/model_partition.h"
#include "model/tensor_table.h"
#include "ops/blocks/weights.h"
#include "ops/capabilities.h"
#include "tensor/device.h"

namespace glint {

class ThreadPool;

struct LayerWeights {
  AttentionWeights attention = {};
  Tensor post_attention_layernorm = {};
  FfnWeights mlp = {};  // dense layers
  MoeWeights moe = {};  // the others
};

// A multi-token-prediction layer; it shares embed_tokens and lm_head with the model.
struct MtpWeights {
  Tensor enorm = {}, hnorm = {};  // [hidden]
  Weight eh_proj = {};            // [hidden, 2 * hidden]: embedding part first
  LayerWeights layer = {};
  Tensor shared_head_norm = {};  // [hidden]
};

// Views into the checkpoint and into `owned`; moved, never copied.
struct ModelWeights {
  Tensor embed_tokens = {};  // [V, hidden] bf16 or f32
  std::vector<LayerWeights> layers = {};
  Tensor norm = {};     // [hidden]
  Weight lm_head = {};  // [V, hidden]
  std::vector<MtpWeights> mtp = {};

  std::vector<Buffer> owned = {};
  std::vector<std::vector<Weight>> lists = {};  // what stacks refer to (WeightStack::each)
  // All that the configuration implies (model_tensors): Weight::id is an index of it.
  std::vector<ModelTensor> tensors = {};
  std::vector<bool> is_held = {};  // of each: false on other ranks, and where nothing was loaded
  // Where sums are cut in more slices than there are ranks (ModelPartition::own_slices), this has
  // the first of its slices of every matrix that is_summed(), and these the others and nothing
  // else.
  std::vector<ModelWeights> slices = {};

  // The head is the embedding's tensor, and has its id.
  bool has_tied_head() const {
    return lm_head && tensors[static_cast<std::size_t>(lm_head.id)].role == TensorRole::kEmbedding;
  }
  bool has(const ModelTensor& tensor) const {
    return is_held[static_cast<std::size_t>(&tensor - tensors.data())];
  }
  MtpWeights& mtp_layer(int layer) { return mtp[static_cast<std::size_t>(layer) - layers.size()]; }
  LayerWeights& layer(int layer) {
    const auto i = static_cast<std::size_t>(layer);
    return i < layers.size() ? layers[i] : mtp_layer(layer).layer;
  }
};

// Calls `visit` for all that `weights` have, in the order of the table, and then for the slices. A
// head that shares the embedding's tensor comes with it.
void visit(ModelWeights& weights, const std::function<void(const ModelTensor&, Held)>& visit);
// For each of their matrices: each of a layer's experts, each head's of both halves of kv_b_proj.
void visit_matrices(ModelWeights& weights,
                    const std::function<void(const ModelTensor&, const Weight&)>& visit);

struct WeightOptions {
  // The type of kv_b_proj's halves where they cannot keep its format (kv_b.h).
  DType activations = DType::kBF16;
  bool with_mtp = true;
  const ModelPartition* partition = nullptr;  // null: all of the model
};

// Finds every weight of the model, or of a rank's part of it, in host memory and checks its shape;
// reads no weight but kv_b_proj, and what it has to copy to cut
// it (cut_weight.h). Fails with one sentence that names the tensor. `checkpoint` must
// outlive the result; if it is of a rank, that is `options.partition`, with a slice a rank.
Result<ModelWeights> find_weights(Checkpoint& checkpoint, const ModelConfig& config,
                                  const WeightOptions& options, ThreadPool& pool);

// Bytes of all of them: data and scales.
std::int64_t bytes_of(ModelWeights& weights);

// Adds to `need` the formats of `weights`, and whether a stack has several.
void add_needs(ModelWeights& weights, Capabilities& need);

}  // namespace glint
