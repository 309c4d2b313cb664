// ModelConfig: what config.json says, under its Hugging Face names, resolved and validated.
//
// Every public spelling of the family is understood (GLM-5, 5.1, 5.2, DeepSeek-V3.2, and GLM-5
// files that were patched to call themselves deepseek_v32): after parsing nobody asks which one it
// was.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/types.h"
#include "model/rope.h"

namespace glint {

enum class MlpKind : std::uint8_t { kDense, kSparse };

// Properties in which layers differ.
struct LayerConfig {
  MlpKind mlp = MlpKind::kSparse;
  // The layer scores keys itself; otherwise it has no indexer weights and no index-key cache, and
  // attends to the keys that the nearest earlier layer with an indexer selected.
  bool has_indexer = true;

  bool is_dense() const { return mlp == MlpKind::kDense; }
  bool operator==(const LayerConfig&) const = default;
};

// Multi-head latent attention.
struct AttentionConfig {
  int num_attention_heads = 0;
  std::int64_t q_lora_rank = 0;
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
  float softmax_scale = 0;  // qk_head_dim^-0.5, times yarn's mscale^2

  std::int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
  std::int64_t latent_dim() const { return kv_lora_rank + qk_rope_head_dim; }
  bool operator==(const AttentionConfig&) const = default;
};

// The lightning indexer of sparse attention.
struct IndexerConfig {
  int index_n_heads = 0;
  std::int64_t index_head_dim = 0;
  std::int64_t index_topk = 0;
  bool indexer_rope_interleave = true;  // false: half-split pairs (j, j + qk_rope_head_dim / 2)
  bool index_share_for_mtp_iteration = false;  // later draft steps reuse the first one's keys

  bool operator==(const IndexerConfig&) const = default;
};

// The mixture of experts of a sparse layer.
struct MoeConfig {
  std::int64_t moe_intermediate_size = 0;  // of one routed expert
  int n_routed_experts = 0;
  int n_shared_experts = 0;
  int num_experts_per_tok = 0;
  int n_group = 1;
  int topk_group = 1;
  bool norm_topk_prob = true;
  float routed_scaling_factor = 1;

  std::int64_t shared_intermediate_size() const { return moe_intermediate_size * n_shared_experts; }
  bool operator==(const MoeConfig&) const = default;
};

// Built by parse_config only, which validates; everybody else reads.
struct ModelConfig : AttentionConfig, IndexerConfig, MoeConfig {
  std::string model_type;  // as the file says: "glm_moe_dsa" or "deepseek_v32"
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;  // of a dense layer
  std::int64_t max_position_embeddings = 0;
  int num_hidden_layers = 0;  // without the MTP layer
  // 0 or 1: of several MTP layers the first drafts every step, and the others are not read. It has
  // index num_hidden_layers.
  int num_nextn_predict_layers = 0;
  int num_unused_mtp_layers = 0;
  bool tie_word_embeddings = false;  // without an lm_head.weight the head is the embedding
  float rms_norm_eps = 0;
  RopeConfig rope;
  std::vector<LayerConfig> layers;  // [num_hidden_layers + num_nextn_predict_layers]
  std::vector<TokenId> eos_token_ids;
  std::string quantization;  // what the file claims, for people; the tensors decide. Empty: nothing

  int num_layers_with_mtp() const { return num_hidden_layers + num_nextn_predict_layers; }
  bool is_mtp(int layer) const { return layer >= num_hidden_layers; }
  int num_moe_layers() const { return num_moe_layers_before(num_hidden_layers); }
  int num_moe_layers_before(int layer) const;
  std::vector<int> moe_layers() const;  // without those of MTP

  bool operator==(const ModelConfig&) const = default;
};

// Weights of one fit the other: they differ at most in what the files say for people, and in the
// ids that end an answer.
bool same_model(ModelConfig a, ModelConfig b);

// Refuses, in one sentence, what is missing, of the wrong kind, out of range, contradictory, or
// another model.
Result<ModelConfig> parse_config(const Json& json);

// `path` is config.json.
Result<ModelConfig> read_config(const std::string& path);

// A config.json of the model without its unused MTP layers, from one of all.
void leave_out_unused_layers(const ModelConfig& config, Json& json);

// Sampling defaults of generation_config.json. What the file does not say stays at its default
// here.
struct GenerationConfig {
  double temperature = 1;  // 0 (greedy) when the file says do_sample: false
  double top_p = 1;
  double min_p = 0;
  int top_k = 0;  // 0: off
  double repetition_penalty = 1;
  std::vector<TokenId> eos_token_ids = {};
};

// `vocab_size`: of the model, whose tokens alone may end an answer. Fields that are not there are
// as in `otherwise`.
Result<GenerationConfig> parse_generation_config(const Json& json, std::int64_t vocab_size,
                                                 const GenerationConfig& otherwise = {});

// A missing file is an empty one.
Result<GenerationConfig> read_generation_config(const std::string& path, std::int64_t vocab_size);

// Ids that end an answer: those of both files, sorted, once each.
std::vector<TokenId> stop_ids(const ModelConfig& config, const GenerationConfig& generation);

}  // namespace glint
