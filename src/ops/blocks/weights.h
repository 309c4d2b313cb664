// The weights of one layer as the blocks take them; names are the checkpoint's. Views: model/ owns
// the memory.
#pragma once

#include "tensor/weight.h"

namespace glint {

// Sizes of this rank's share of an attention layer, and its constants.
struct AttentionDims {
  int heads = 0;             // query heads on this rank
  int qk_nope_head_dim = 0;  // GLM-5: 192
  int qk_rope_head_dim = 0;  // 64
  int v_head_dim = 0;        // 256
  int kv_lora_rank = 0;      // 512
  int index_n_heads = 0;     // 32
  int index_head_dim = 0;    // 128, the first qk_rope_head_dim of them rotated
  int index_topk = 0;        // 2048
  float rms_norm_eps = 0;
  float softmax_scale = 0;
  bool indexer_rope_interleave = true;  // the rotation of MLA itself is always interleaved
};

// Sizes of a model that a backend's kernels must have room for.
struct ModelDims {
  AttentionDims attention = {};
  int n_routed_experts = 0;
  int num_experts_per_tok = 0;
};

// Absent (all empty) in layers that reuse the selection of an earlier one.
struct IndexerWeights {
  Weight wq_b = {};                      // [Hi * Di, q_lora_rank]
  Weight wk = {};                        // [Di, hidden]
  Weight weights_proj = {};              // [Hi, hidden]
  Tensor k_norm = {}, k_norm_bias = {};  // [Di]

  explicit operator bool() const { return static_cast<bool>(wk); }
};

struct AttentionWeights {
  Tensor input_layernorm = {};     // [hidden]
  Weight q_a_proj = {};            // [q_lora_rank, hidden]
  Tensor q_a_layernorm = {};       // [q_lora_rank]
  Weight q_b_proj = {};            // [h * (nope + rope), q_lora_rank]
  Weight kv_a_proj_with_mqa = {};  // [latent + rope, hidden]
  Tensor kv_a_layernorm = {};      // [latent]
  WeightStack w_uk = {};           // h of [latent, nope]: kv_b_proj's key rows, transposed
  WeightStack w_uv = {};           // h of [v, latent]: its value rows
  Weight o_proj = {};              // [hidden, h * v]
  IndexerWeights indexer = {};
};

struct FfnWeights {
  Weight gate_proj = {}, up_proj = {};  // [inter, hidden]
  Weight down_proj = {};                // [hidden, inter]

  explicit operator bool() const { return static_cast<bool>(down_proj); }
};

struct MoeWeights {
  Weight gate = {};                          // [E, hidden], the router
  Tensor e_score_correction_bias = {};       // [E] f32
  WeightStack gate_proj = {}, up_proj = {};  // E of [inter, hidden]
  WeightStack down_proj = {};                // E of [hidden, inter]
  FfnWeights shared_experts = {};            // empty if the model has none
};

}  // namespace glint
