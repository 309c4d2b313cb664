// The weights of a GLM-5 model, by the names of its checkpoint, and where they are found in one.
// place_weights.h then puts them where the backend wants them.
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "model/config.h"
#include "ops/blocks/weights.h"
#include "ops/capabilities.h"
#include "tensor/device.h"

namespace glint {

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

// Views into the checkpoint and into `owned`.
struct ModelWeights {
  Tensor embed_tokens = {};  // [V, hidden] bf16 or f32
  std::vector<LayerWeights> layers = {};
  Tensor norm = {};     // [hidden]
  Weight lm_head = {};  // [V, hidden]
  std::vector<MtpWeights> mtp = {};

  std::vector<Buffer> owned = {};
};

// What of `weights` is given, in the order of the forward pass: matrices, and the other tensors.
using VisitWeight = std::function<void(Weight&)>;
using VisitTensor = std::function<void(Tensor&)>;
void visit(ModelWeights& weights, const VisitWeight& on_weight, const VisitTensor& on_tensor);

struct WeightOptions {
  // What of kv_b_proj cannot keep its format (weights.cc) becomes this type.
  DType activations = DType::kBF16;
  bool with_mtp = true;
};

// Finds every weight of the model in host memory and checks its shape; reads no weight but
// kv_b_proj. Fails with one sentence that names the tensor. `checkpoint` must outlive the result.
Result<ModelWeights> find_weights(Checkpoint& checkpoint, const ModelConfig& config,
                                  const WeightOptions& options, ThreadPool& pool);

// The formats that occur in `weights`, for check_capabilities.
EnumSet<WeightFormat> formats_of(ModelWeights& weights);

}  // namespace glint
