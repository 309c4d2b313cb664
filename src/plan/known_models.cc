#include "plan/known_models.h"

#include "base/json.h"
#include "base/str.h"

namespace glint {
namespace {

// zai-org/GLM-5/config.json.
constexpr std::string_view kGlm5 = R"json({
  "architectures": [
    "GlmMoeDsaForCausalLM"
  ],
  "attention_bias": false,
  "attention_dropout": 0.0,
  "dtype": "bfloat16",
  "eos_token_id": [
    154820,
    154827,
    154829
  ],
  "ep_size": 1,
  "first_k_dense_replace": 3,
  "head_dim": 64,
  "hidden_act": "silu",
  "hidden_size": 6144,
  "index_head_dim": 128,
  "index_n_heads": 32,
  "index_topk": 2048,
  "indexer_rope_interleave": true,
  "initializer_range": 0.02,
  "intermediate_size": 12288,
  "kv_lora_rank": 512,
  "max_position_embeddings": 202752,
  "model_type": "glm_moe_dsa",
  "moe_intermediate_size": 2048,
  "moe_layer_freq": 1,
  "n_group": 1,
  "n_routed_experts": 256,
  "n_shared_experts": 1,
  "norm_topk_prob": true,
  "num_attention_heads": 64,
  "num_experts_per_tok": 8,
  "num_hidden_layers": 78,
  "num_key_value_heads": 64,
  "num_nextn_predict_layers": 1,
  "pad_token_id": 154820,
  "pretraining_tp": 1,
  "q_lora_rank": 2048,
  "qk_head_dim": 256,
  "qk_nope_head_dim": 192,
  "qk_rope_head_dim": 64,
  "rms_norm_eps": 1e-05,
  "rope_interleave": true,
  "rope_parameters": {
    "rope_theta": 1000000,
    "rope_type": "default"
  },
  "routed_scaling_factor": 2.5,
  "scoring_func": "sigmoid",
  "tie_word_embeddings": false,
  "topk_group": 1,
  "topk_method": "noaux_tc",
  "transformers_version": "5.0.2.dev0",
  "use_cache": true,
  "v_head_dim": 256,
  "vocab_size": 154880
})json";

struct Known {
  std::string_view id;
  Release release;
  int num_layers = 78;
};

// All of GLM-5's shapes; some have its first layers alone.
constexpr Known kKnown[] = {
    {"zai-org/GLM-5", Release::kBF16},
    {"zai-org/GLM-5-FP8", Release::kFp8},
    {"zai-org/GLM-5.1", Release::kBF16},
    {"zai-org/GLM-5.1-FP8", Release::kFp8},
    {"lukealonso/GLM-5-NVFP4", Release::kNvfp4},
    {"warnold-nv/GLM-5-nvfp4-v1", Release::kNvfp4},
    {"Pinaster/GLM-5_4layer", Release::kBF16, 4},
    {"Pinaster/GLM-5_20layer", Release::kBF16, 20},
};

}  // namespace

std::optional<KnownModel> find_known_model(std::string_view id) {
  for (const Known& known : kKnown) {
    if (known.id != id && known.id.substr(known.id.find('/') + 1) != id) continue;
    Json config = parse_json(kGlm5).value();
    config.set("num_hidden_layers", known.num_layers);
    return KnownModel{
        .id = known.id, .config = parse_config(config).value(), .release = known.release};
  }
  return {};
}

std::optional<Release> release_of(const ModelConfig& config) {
  const std::string text = lower(config.quantization);
  const auto says = [&](const char* word) { return text.find(word) != text.npos; };
  if (text.empty()) return Release::kBF16;
  const bool is_mx = says("mxfp");  // blocks and scales of its own
  if (text == "modelopt" || (says("fp4") && !is_mx)) return Release::kNvfp4;
  const bool is_fp8 = says("fp8") || says("float-quantized");  // of compressed-tensors
  if (is_fp8 && !is_mx) return Release::kFp8;
  return {};
}

}  // namespace glint
