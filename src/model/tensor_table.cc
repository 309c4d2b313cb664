#include "model/tensor_table.h"

#include "base/str.h"
#include "model/weights.h"

namespace glint {
namespace {

using L = LayerWeights;
using A = AttentionWeights;
using I = IndexerWeights;
using F = FfnWeights;
using E = MoeWeights;

// The member at the end of a path of members: of the model, of layer `layer`, of an MTP layer.
template <auto... kPath>
Held in_model(ModelWeights& weights, int) {
  return &(weights.*....*kPath);
}
template <auto... kPath>
Held in_layer(ModelWeights& weights, int layer) {
  return &(weights.layer(layer).*....*kPath);
}
template <auto... kPath>
Held in_mtp(ModelWeights& weights, int layer) {
  return &(weights.mtp_layer(layer).*....*kPath);
}

Held kv_halves(ModelWeights& weights, int layer) {
  A& attention = weights.layer(layer).attention;
  return KvHalves{&attention.w_uk, &attention.w_uv};
}

// Appends the tensors of one layer under its prefix.
class LayerTable {
 public:
  using Find = Held (*)(ModelWeights&, int);

  LayerTable(const ModelConfig& config, int layer, std::vector<ModelTensor>& out)
      : c_(config), layer_(layer), prefix_(str("model.layers.", layer, ".")), out_(out) {}

  void begin_mtp() {
    const std::int64_t H = c_.hidden_size;
    vector(TensorRole::kMtp, "enorm.weight", H, in_mtp<&MtpWeights::enorm>);
    vector(TensorRole::kMtp, "hnorm.weight", H, in_mtp<&MtpWeights::hnorm>);
    matrix(TensorRole::kMtp, "eh_proj", H, 2 * H, in_mtp<&MtpWeights::eh_proj>);
  }
  void end_mtp() {
    vector(TensorRole::kMtp, "shared_head.norm.weight", c_.hidden_size,
           in_mtp<&MtpWeights::shared_head_norm>);
  }

  void attention() {
    const std::int64_t H = c_.hidden_size, heads = c_.num_attention_heads;
    const auto norm = [&](const char* name, std::int64_t size, Find find) {
      vector(TensorRole::kNorm, name, size, find);
    };
    const auto add = [&](const char* name, std::int64_t rows, std::int64_t cols, Split split,
                         Find find) {
      linear(TensorRole::kAttention, str("self_attn.", name), rows, cols, find).split = split;
    };
    norm("input_layernorm.weight", H, in_layer<&L::attention, &A::input_layernorm>);
    add("q_a_proj", c_.q_lora_rank, H, Split::kWhole, in_layer<&L::attention, &A::q_a_proj>);
    norm("self_attn.q_a_layernorm.weight", c_.q_lora_rank,
         in_layer<&L::attention, &A::q_a_layernorm>);
    add("q_b_proj", heads * c_.qk_head_dim(), c_.q_lora_rank, Split::kHeads,
        in_layer<&L::attention, &A::q_b_proj>);
    add("kv_a_proj_with_mqa", c_.latent_dim(), H, Split::kWhole,
        in_layer<&L::attention, &A::kv_a_proj_with_mqa>);
    norm("self_attn.kv_a_layernorm.weight", c_.kv_lora_rank,
         in_layer<&L::attention, &A::kv_a_layernorm>);
    add("kv_b_proj", heads * (c_.qk_nope_head_dim + c_.v_head_dim), c_.kv_lora_rank, Split::kHeads,
        kv_halves);
    add("o_proj", H, heads * c_.v_head_dim, Split::kCols, in_layer<&L::attention, &A::o_proj>);
  }

  // Whole on every rank: all must select the same keys.
  void indexer() {
    const auto kRole = TensorRole::kIndexer;
    const std::size_t first = out_.size();
    linear(kRole, "self_attn.indexer.wq_b", c_.index_n_heads * c_.index_head_dim, c_.q_lora_rank,
           in_layer<&L::attention, &A::indexer, &I::wq_b>);
    linear(kRole, "self_attn.indexer.wk", c_.index_head_dim, c_.hidden_size,
           in_layer<&L::attention, &A::indexer, &I::wk>);
    vector(kRole, "self_attn.indexer.k_norm.weight", c_.index_head_dim,
           in_layer<&L::attention, &A::indexer, &I::k_norm>);
    vector(kRole, "self_attn.indexer.k_norm.bias", c_.index_head_dim,
           in_layer<&L::attention, &A::indexer, &I::k_norm_bias>);
    matrix(kRole, "self_attn.indexer.weights_proj", c_.index_n_heads, c_.hidden_size,
           in_layer<&L::attention, &A::indexer, &I::weights_proj>);
    for (std::size_t i = first; i < out_.size(); ++i) out_[i].is_trained = false;
  }

  void ffn() {
    vector(TensorRole::kNorm, "post_attention_layernorm.weight", c_.hidden_size,
           in_layer<&L::post_attention_layernorm>);
    if (c_.layers[static_cast<std::size_t>(layer_)].is_dense()) {
      mlp({TensorRole::kDenseMlp, "mlp.", c_.intermediate_size},
          {in_layer<&L::mlp, &F::gate_proj>, in_layer<&L::mlp, &F::up_proj>,
           in_layer<&L::mlp, &F::down_proj>});
      return;
    }
    matrix(TensorRole::kRouter, "mlp.gate", c_.n_routed_experts, c_.hidden_size,
           in_layer<&L::moe, &E::gate>);
    vector(TensorRole::kRouter, "mlp.gate.e_score_correction_bias", c_.n_routed_experts,
           in_layer<&L::moe, &E::e_score_correction_bias>);
    out_.back().is_f32 = true;
    out_.back().is_trained = false;
    mlp({TensorRole::kRoutedExpert, "mlp.experts.*.", c_.moe_intermediate_size,
         c_.n_routed_experts},
        {in_layer<&L::moe, &E::gate_proj>, in_layer<&L::moe, &E::up_proj>,
         in_layer<&L::moe, &E::down_proj>});
    if (!c_.n_shared_experts) return;
    mlp({TensorRole::kSharedExpert, "mlp.shared_experts.", c_.shared_intermediate_size()},
        {in_layer<&L::moe, &E::shared_experts, &F::gate_proj>,
         in_layer<&L::moe, &E::shared_experts, &F::up_proj>,
         in_layer<&L::moe, &E::shared_experts, &F::down_proj>});
  }

 private:
  struct Mlp {
    TensorRole role;
    const char* path;
    std::int64_t intermediate;
    int num_experts = 0;
  };
  struct MlpFind {
    Find gate, up, down;
  };

  void vector(TensorRole role, std::string_view name, std::int64_t size, Find find) {
    out_.push_back({.name = str(prefix_, name), .role = role, .layer = layer_, .cols = size});
    out_.back().find = find;
  }

  ModelTensor& matrix(TensorRole role, std::string_view name, std::int64_t rows, std::int64_t cols,
                      Find find) {
    vector(role, name, cols, find);
    out_.back().rows = rows;
    return out_.back();
  }

  // A matrix that FP8 releases quantise.
  ModelTensor& linear(TensorRole role, std::string_view name, std::int64_t rows, std::int64_t cols,
                      Find find) {
    matrix(role, name, rows, cols, find).is_quantizable = true;
    return out_.back();
  }

  void mlp(const Mlp& m, const MlpFind& find) {
    const auto add = [&](const char* name, bool is_down, Find at) {
      const std::int64_t H = c_.hidden_size;
      ModelTensor& tensor = linear(m.role, str(m.path, name), is_down ? H : m.intermediate,
                                   is_down ? m.intermediate : H, at);
      tensor.num_experts = m.num_experts;
      tensor.split = m.num_experts ? (is_down ? Split::kExpertCols : Split::kExpertRows)
                                   : (is_down ? Split::kCols : Split::kRows);
    };
    add("gate_proj", false, find.gate);
    add("up_proj", false, find.up);
    add("down_proj", true, find.down);
  }

  const ModelConfig& c_;
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
  // By tokens, like the head: whole it would take the memory of 16,000 tokens of cache from each of
  // eight ranks of GLM-5, to save one collective of a step's 157.
  tensors.push_back({.name = "model.embed_tokens",
                     .role = TensorRole::kEmbedding,
                     .rows = config.vocab_size,
                     .cols = H,
                     .split = Split::kVocab,
                     .find = in_model<&ModelWeights::embed_tokens>});
  for (int layer = 0; layer < config.num_layers_with_mtp(); ++layer) {
    LayerTable table(config, layer, tensors);
    if (config.is_mtp(layer)) table.begin_mtp();
    table.attention();
    if (config.layers[static_cast<std::size_t>(layer)].has_indexer) table.indexer();
    table.ffn();
    if (config.is_mtp(layer)) table.end_mtp();
    if (layer + 1 != config.num_hidden_layers) continue;
    tensors.push_back({.name = "model.norm.weight",
                       .role = TensorRole::kNorm,
                       .cols = H,
                       .find = in_model<&ModelWeights::norm>});
    if (config.tie_word_embeddings) continue;
    tensors.push_back({.name = "lm_head",
                       .role = TensorRole::kHead,
                       .rows = config.vocab_size,
                       .cols = H,
                       .split = Split::kVocab,
                       .find = in_model<&ModelWeights::lm_head>});
  }
  return tensors;
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
