// The weights of a GLM-5 model, by the names of its checkpoint, and how they come from one.
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "model/config.h"
#include "ops/blocks/weights.h"
#include "ops/capabilities.h"
#include "ops/ops.h"

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

// Views into the checkpoint where the backend reads it in place, and into `owned` elsewhere.
struct ModelWeights {
  Tensor embed_tokens = {};  // [V, hidden] bf16 or f32
  std::vector<LayerWeights> layers = {};
  Tensor norm = {};     // [hidden]
  Weight lm_head = {};  // [V, hidden]
  std::vector<MtpWeights> mtp = {};

  std::vector<Buffer> owned = {};
};

// Called with the bytes just done, of `total` to do. From any thread.
using LoadProgress = std::function<void(std::int64_t bytes, std::int64_t total)>;

// Everything that the model needs of a backend.
struct WeightOptions {
  DType activations =
      DType::kBF16;  // kF32: kv_b_proj's halves stay f32 after dequantisation; else bf16
  bool with_mtp = true;
};

// Fails with one sentence that names the tensor. `checkpoint` must outlive the result.
Result<ModelWeights> load_weights(Checkpoint& checkpoint, const ModelConfig& config,
                                  const WeightOptions& options, Ops& ops, ThreadPool& pool,
                                  const LoadProgress& progress = {});

// Puts another checkpoint of the same model into the place of `weights`: in the memory that they
// own, so that at no time there are two copies. All of it is looked at before the first weight
// changes, so on failure `weights` are as they were. `checkpoint` must then outlive them instead.
Status replace_weights(Checkpoint& checkpoint, const ModelConfig& config,
                       const WeightOptions& options, Ops& ops, ThreadPool& pool,
                       ModelWeights& weights);

// The formats that occur in `weights`, for check_capabilities.
EnumSet<WeightFormat> formats_of(const ModelWeights& weights);

}  // namespace glint
