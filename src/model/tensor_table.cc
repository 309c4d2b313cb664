#include "model/tensor_table.h"

#include "base/str.h"

namespace glint {
namespace {

// Appends the tensors of one layer under its prefix.
class LayerTable {
 public:
  LayerTable(const ModelConfig& config, int layer, std::vector<ModelTensor>& out)
      : config_(config), layer_(layer), prefix_(str("model.layers.", layer, ".")), out_(out) {}

  void vector(TensorRole role, std::string_view name, std::int64_t size) {
    out_.push_back({.name = str(prefix_, name), .role = role, .layer = layer_, .cols = size});
  }

  void matrix(TensorRole role, std::string_view name, std::int64_t rows, std::int64_t cols) {
    out_.push_back(
        {.name = str(prefix_, name), .role = role, .layer = layer_, .rows = rows, .cols = cols});
  }

  // A matrix that FP8 releases quantise.
  void linear(TensorRole role, std::string_view name, std::int64_t rows, std::int64_t cols) {
    matrix(role, name, rows, cols);
    out_.back().is_quantizable = true;
  }

  void mlp(TensorRole role, std::string_view path, std::int64_t intermediate, int num_experts) {
    const std::int64_t H = config_.hidden_size;
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      const bool down = name[0] == 'd';
      linear(role, str(path, name), down ? H : intermediate, down ? intermediate : H);
      out_.back().num_experts = num_experts;
    }
  }

  void attention() {
    const ModelConfig& c = config_;
    const std::int64_t heads = c.num_attention_heads;
    vector(TensorRole::kNorm, "input_layernorm.weight", c.hidden_size);
    const auto add = [&](const char* name, std::int64_t rows, std::int64_t cols) {
      linear(TensorRole::kAttention, str("self_attn.", name), rows, cols);
    };
    add("q_a_proj", c.q_lora_rank, c.hidden_size);
    vector(TensorRole::kNorm, "self_attn.q_a_layernorm.weight", c.q_lora_rank);
    add("q_b_proj", heads * c.qk_head_dim(), c.q_lora_rank);
    add("kv_a_proj_with_mqa", c.latent_dim(), c.hidden_size);
    vector(TensorRole::kNorm, "self_attn.kv_a_layernorm.weight", c.kv_lora_rank);
    add("kv_b_proj", heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank);
    add("o_proj", c.hidden_size, heads * c.v_head_dim);
  }

  void indexer() {
    const ModelConfig& c = config_;
    const auto kRole = TensorRole::kIndexer;
    linear(kRole, "self_attn.indexer.wq_b", c.index_n_heads * c.index_head_dim, c.q_lora_rank);
    linear(kRole, "self_attn.indexer.wk", c.index_head_dim, c.hidden_size);
    vector(kRole, "self_attn.indexer.k_norm.weight", c.index_head_dim);
    vector(kRole, "self_attn.indexer.k_norm.bias", c.index_head_dim);
    matrix(kRole, "self_attn.indexer.weights_proj", c.index_n_heads, c.hidden_size);
  }

  void ffn() {
    const ModelConfig& c = config_;
    vector(TensorRole::kNorm, "post_attention_layernorm.weight", c.hidden_size);
    if (c.layers[static_cast<std::size_t>(layer_)].is_dense()) {
      mlp(TensorRole::kDenseMlp, "mlp.", c.intermediate_size, 0);
      return;
    }
    matrix(TensorRole::kRouter, "mlp.gate", c.n_routed_experts, c.hidden_size);
    vector(TensorRole::kRouter, "mlp.gate.e_score_correction_bias", c.n_routed_experts);
    mlp(TensorRole::kRoutedExpert, "mlp.experts.*.", c.moe_intermediate_size, c.n_routed_experts);
    if (c.n_shared_experts)
      mlp(TensorRole::kSharedExpert, "mlp.shared_experts.", c.shared_intermediate_size(), 0);
  }

 private:
  const ModelConfig& config_;
  const int layer_;
  const std::string prefix_;
  std::vector<ModelTensor>& out_;
};

}  // namespace

const char* name_of(TensorRole role) {
  static constexpr const char* kNames[kNumTensorRoles] = {
      "embedding",      "attention",      "indexer", "dense mlp", "router",
      "routed experts", "shared experts", "mtp",     "norms",     "head"};
  return kNames[static_cast<std::size_t>(role)];
}

std::string ModelTensor::name_of_copy(int expert) const {
  if (!num_experts) return name;
  const std::size_t star = name.find('*');
  return str(name.substr(0, star), expert, name.substr(star + 1));
}

std::vector<ModelTensor> model_tensors(const ModelConfig& config) {
  const std::int64_t H = config.hidden_size;
  std::vector<ModelTensor> tensors;
  tensors.push_back({.name = "model.embed_tokens",
                     .role = TensorRole::kEmbedding,
                     .rows = config.vocab_size,
                     .cols = H});
  for (int layer = 0; layer < config.num_layers_with_mtp(); ++layer) {
    LayerTable table(config, layer, tensors);
    if (config.is_mtp(layer)) {
      table.vector(TensorRole::kMtp, "enorm.weight", H);
      table.vector(TensorRole::kMtp, "hnorm.weight", H);
      table.matrix(TensorRole::kMtp, "eh_proj", H, 2 * H);
    }
    table.attention();
    if (config.layers[static_cast<std::size_t>(layer)].has_indexer) table.indexer();
    table.ffn();
    if (config.is_mtp(layer)) table.vector(TensorRole::kMtp, "shared_head.norm.weight", H);
    if (layer + 1 == config.num_hidden_layers) {
      tensors.push_back({.name = "model.norm.weight", .role = TensorRole::kNorm, .cols = H});
      if (config.tie_word_embeddings) continue;
      tensors.push_back(
          {.name = "lm_head", .role = TensorRole::kHead, .rows = config.vocab_size, .cols = H});
    }
  }
  return tensors;
}

std::string stacked_experts_name(int layer, bool gate_up) {
  return str("model.layers.", layer, ".mlp.experts.", gate_up ? "gate_up_proj" : "down_proj");
}

ParameterCount count_parameters(const ModelConfig& config) {
  // The head is read for every token even if it is the embedding.
  ParameterCount count = {.head = config.vocab_size * config.hidden_size};
  count.active = count.head;
  for (const ModelTensor& tensor : model_tensors(config)) {
    if (tensor.layer >= config.num_hidden_layers) {
      count.mtp += tensor.parameters();
      continue;
    }
    count.main += tensor.parameters();
    if (tensor.role == TensorRole::kHead || tensor.role == TensorRole::kEmbedding) continue;
    count.active +=
        tensor.num_experts ? tensor.elements() * config.num_experts_per_tok : tensor.parameters();
  }
  return count;
}

}  // namespace glint
