#include "model/weights.h"

#include <cstring>

#include "base/file.h"
#include "base/str.h"

namespace glint {
namespace {

// Where the memory comes from that weights need beside the checkpoint's own.
struct Memory {
  enum class From {
    kDevice,   // new
    kEarlier,  // that of an earlier load of the same sizes, in the same order
    kNowhere,  // none is taken and nothing is written: a look at what a load would need
  };
  From from = From::kDevice;
  std::span<const Buffer> earlier = {};
};

// Walks the model's tensors in the order of the forward pass and places each where the device can
// read it.
class Loader {
 public:
  Loader(Checkpoint& checkpoint, const ModelConfig& config, const WeightOptions& options, Ops& ops,
         ThreadPool& pool, const LoadProgress& progress, Memory memory)
      : checkpoint_(checkpoint),
        c_(config),
        options_(options),
        ops_(ops),
        device_(ops.device()),
        pool_(pool),
        progress_(progress),
        memory_(memory) {
    for (const StoredTensor& tensor : checkpoint.source().tensors()) {
      total_ += static_cast<std::int64_t>(tensor.bytes.size());
    }
  }

  Result<ModelWeights> load() {
    GLINT_TRY(const Weight embed,
              checkpoint_.weight("model.embed_tokens", c_.vocab_size, c_.hidden_size));
    if (embed.format != WeightFormat::kF32 && embed.format != WeightFormat::kBF16) {
      return invalid(
          str("model.embed_tokens.weight is ", name_of(embed.format), "; expected f32 or bf16"));
    }
    GLINT_TRY(weights_.embed_tokens, place(embed.data));
    report(bytes_of(embed));
    for (int i = 0; i < c_.num_hidden_layers; ++i) {
      GLINT_TRY(LayerWeights layer, load_layer(i));
      weights_.layers.push_back(std::move(layer));
    }
    GLINT_TRY(weights_.norm, vector("model.norm.weight", c_.hidden_size));
    GLINT_TRY(weights_.lm_head, weight("lm_head", c_.vocab_size, c_.hidden_size));
    if (options_.with_mtp) {
      for (int i = c_.num_hidden_layers; i < c_.num_layers_with_mtp(); ++i) {
        GLINT_TRY(MtpWeights mtp, load_mtp(i));
        weights_.mtp.push_back(std::move(mtp));
      }
    }
    return std::move(weights_);
  }

  // Of the memory that load() took, in order.
  const std::vector<std::size_t>& sizes() const { return sizes_; }

 private:
  bool writes() const { return memory_.from != Memory::From::kNowhere; }

  Result<Weight> weight(const std::string& name, std::int64_t rows, std::int64_t cols) {
    GLINT_TRY(const Weight found, checkpoint_.weight(name, rows, cols));
    GLINT_TRY(const Weight placed, place(found));
    report(bytes_of(found));
    return placed;
  }

  // Packed for the backend's kernels if it wants that, and the source's memory given back, so that
  // there are never two copies; else where it is.
  Result<Weight> place(const Weight& found) {
    Weight placed = found;
    if (found.scale) {
      GLINT_TRY(placed.scale, place(found.scale));
    }
    if (const std::int64_t bytes = ops_.packed_bytes(found); bytes > 0) {
      GLINT_TRY(std::byte* const to, own(static_cast<std::size_t>(bytes)));
      placed = ops_.pack(placed, to);
      discard_pages({found.data.data,
                     static_cast<std::size_t>(found.data.size()) * size_of(found.data.dtype)});
      return placed;
    }
    GLINT_TRY(placed.data, place(found.data));
    return placed;
  }

  Result<Tensor> vector(const std::string& name, std::int64_t size) {
    GLINT_TRY(const Tensor found, checkpoint_.vector(name, size));
    return place(found);
  }

  // The checkpoint's own bytes if the device can read them, else a copy.
  Result<Tensor> place(const Tensor& tensor) {
    if (device_.is_host()) return tensor;
    const std::size_t bytes = static_cast<std::size_t>(tensor.size()) * size_of(tensor.dtype);
    Tensor copy = tensor;
    GLINT_TRY(copy.data, own(bytes));
    if (writes()) device_.copy_in(copy.data, tensor.data, bytes);
    return copy;
  }

  Result<std::byte*> own(std::size_t bytes) {
    sizes_.push_back(bytes);
    if (!writes()) return nullptr;
    if (memory_.from == Memory::From::kEarlier) return memory_.earlier[sizes_.size() - 1].data();
    Buffer buffer = device_.allocate(bytes);
    if (!buffer.data()) {
      return Error{ErrorCode::kResourceExhausted,
                   str("no room on ", device_.name(), " for ",
                       human_bytes(static_cast<double>(bytes)), " of weights")};
    }
    weights_.owned.push_back(std::move(buffer));
    return weights_.owned.back().data();
  }

  Result<LayerWeights> load_layer(int i) {
    const std::string prefix = str("model.layers.", i, ".");
    LayerWeights layer;
    GLINT_TRY(layer.attention, load_attention(prefix, c_.layers[i].has_indexer));
    GLINT_TRY(layer.post_attention_layernorm,
              vector(prefix + "post_attention_layernorm.weight", c_.hidden_size));
    if (c_.layers[i].is_dense()) {
      GLINT_TRY(layer.mlp, load_ffn(prefix + "mlp.", c_.intermediate_size));
    } else {
      GLINT_TRY(layer.moe, load_moe(prefix + "mlp."));
    }
    return layer;
  }

  Result<AttentionWeights> load_attention(const std::string& layer, bool has_indexer) {
    const std::string prefix = layer + "self_attn.";
    const std::int64_t H = c_.hidden_size, heads = c_.num_attention_heads, latent = c_.kv_lora_rank;
    AttentionWeights w;
    GLINT_TRY(w.input_layernorm, vector(layer + "input_layernorm.weight", H));
    GLINT_TRY(w.q_a_proj, weight(prefix + "q_a_proj", c_.q_lora_rank, H));
    GLINT_TRY(w.q_a_layernorm, vector(prefix + "q_a_layernorm.weight", c_.q_lora_rank));
    GLINT_TRY(w.q_b_proj, weight(prefix + "q_b_proj", heads * c_.qk_head_dim(), c_.q_lora_rank));
    GLINT_TRY(w.kv_a_proj_with_mqa, weight(prefix + "kv_a_proj_with_mqa", c_.latent_dim(), H));
    GLINT_TRY(w.kv_a_layernorm, vector(prefix + "kv_a_layernorm.weight", latent));
    GLINT_TRY(w.o_proj, weight(prefix + "o_proj", H, heads * c_.v_head_dim));
    GLINT_TRY(const Weight kv_b,
              checkpoint_.weight(prefix + "kv_b_proj",
                                 heads * (c_.qk_nope_head_dim + c_.v_head_dim), latent));
    GLINT_TRY_STATUS(split_kv_b(kv_b, w));
    report(bytes_of(kv_b));
    if (has_indexer) {
      GLINT_TRY(w.indexer, load_indexer(prefix + "indexer."));
    }
    return w;
  }

  // kv_b_proj holds, head after head, W_UK [nope, latent] and W_UV [v, latent]. W_UK is transposed,
  // because absorption sums over its rows. W_UV stays where it is if it can; the border between the
  // two is not aligned to FP8 blocks, so from packed formats both halves are dequantised.
  Status split_kv_b(const Weight& kv_b, AttentionWeights& w) {
    const std::int64_t heads = c_.num_attention_heads, latent = c_.kv_lora_rank;
    const std::int64_t nope = c_.qk_nope_head_dim, v = c_.v_head_dim;
    const bool in_place = device_.is_host() &&
                          (kv_b.format == WeightFormat::kBF16 || kv_b.format == WeightFormat::kF32);
    const DType dtype = kv_b.format == WeightFormat::kBF16 || options_.activations == DType::kBF16
                            ? DType::kBF16
                            : DType::kF32;
    GLINT_TRY(w.w_uk, fill(dtype, {heads, latent, nope}, [&]<class T>(T* out) {
                const auto transpose_head = [&](std::int64_t h, int) {
                  std::vector<float> row(static_cast<std::size_t>(latent));
                  for (std::int64_t r = 0; r < nope; ++r) {
                    dequantize_row(kv_b, h * (nope + v) + r, row.data());
                    for (std::int64_t k = 0; k < latent; ++k)
                      out[(h * latent + k) * nope + r] = from_float<T>(row[k]);
                  }
                };
                pool_.run(heads, transpose_head);
              }));
    if (in_place) {
      w.w_uv = kv_b.data;
      w.w_uv.rank = 3;
      w.w_uv.shape = {heads, v, latent};
      w.w_uv.stride = {(nope + v) * latent, latent, 1};
      w.w_uv.data += nope * latent * size_of(kv_b.data.dtype);
      return Ok{};
    }
    GLINT_TRY(w.w_uv, fill(dtype, {heads, v, latent}, [&]<class T>(T* out) {
                const auto copy_head = [&](std::int64_t h, int) {
                  std::vector<float> row(static_cast<std::size_t>(latent));
                  for (std::int64_t r = 0; r < v; ++r) {
                    dequantize_row(kv_b, h * (nope + v) + nope + r, row.data());
                    for (std::int64_t k = 0; k < latent; ++k)
                      out[(h * v + r) * latent + k] = from_float<T>(row[k]);
                  }
                };
                pool_.run(heads, copy_head);
              }));
    return Ok{};
  }

  // A new f32 or bf16 tensor on the device whose values `write(T*)` writes on the host.
  template <class Write>
  Result<Tensor> fill(DType dtype, std::initializer_list<std::int64_t> dims, Write&& write) {
    Tensor tensor(nullptr, dtype, dims);
    const std::size_t bytes = static_cast<std::size_t>(tensor.size()) * size_of(dtype);
    GLINT_TRY(tensor.data, own(bytes));
    if (!writes()) return tensor;
    std::vector<std::byte> staging(device_.is_host() ? 0 : bytes);
    std::byte* host = device_.is_host() ? tensor.data : staging.data();
    with_float_type(dtype, [&]<class T>(T) { write(reinterpret_cast<T*>(host)); });
    if (!device_.is_host()) device_.copy_in(tensor.data, host, bytes);
    return tensor;
  }

  Result<IndexerWeights> load_indexer(const std::string& prefix) {
    const std::int64_t H = c_.hidden_size, heads = c_.index_n_heads, dim = c_.index_head_dim;
    IndexerWeights w;
    GLINT_TRY(w.wq_b, weight(prefix + "wq_b", heads * dim, c_.q_lora_rank));
    GLINT_TRY(w.wk, weight(prefix + "wk", dim, H));
    GLINT_TRY(w.weights_proj, weight(prefix + "weights_proj", heads, H));
    GLINT_TRY(w.k_norm, vector(prefix + "k_norm.weight", dim));
    GLINT_TRY(w.k_norm_bias, vector(prefix + "k_norm.bias", dim));
    return w;
  }

  Result<FfnWeights> load_ffn(const std::string& prefix, std::int64_t inter) {
    FfnWeights w;
    GLINT_TRY(w.gate_proj, weight(prefix + "gate_proj", inter, c_.hidden_size));
    GLINT_TRY(w.up_proj, weight(prefix + "up_proj", inter, c_.hidden_size));
    GLINT_TRY(w.down_proj, weight(prefix + "down_proj", c_.hidden_size, inter));
    return w;
  }

  Result<MoeWeights> load_moe(const std::string& prefix) {
    MoeWeights w;
    const std::int64_t E = c_.n_routed_experts;
    GLINT_TRY(w.gate, weight(prefix + "gate", E, c_.hidden_size));
    GLINT_TRY(w.e_score_correction_bias, vector(prefix + "gate.e_score_correction_bias", E));
    for (std::int64_t e = 0; e < E; ++e) {
      GLINT_TRY(FfnWeights expert,
                load_ffn(str(prefix, "experts.", e, "."), c_.moe_intermediate_size));
      w.gate_proj.push_back(std::move(expert.gate_proj));
      w.up_proj.push_back(std::move(expert.up_proj));
      w.down_proj.push_back(std::move(expert.down_proj));
    }
    if (c_.n_shared_experts) {
      GLINT_TRY(w.shared_experts,
                load_ffn(prefix + "shared_experts.", c_.shared_intermediate_size()));
    }
    return w;
  }

  Result<MtpWeights> load_mtp(int i) {
    const std::string prefix = str("model.layers.", i, ".");
    const std::int64_t H = c_.hidden_size;
    MtpWeights w;
    GLINT_TRY(w.enorm, vector(prefix + "enorm.weight", H));
    GLINT_TRY(w.hnorm, vector(prefix + "hnorm.weight", H));
    GLINT_TRY(w.eh_proj, weight(prefix + "eh_proj", H, 2 * H));
    GLINT_TRY(w.layer, load_layer(i));
    GLINT_TRY(w.shared_head_norm, vector(prefix + "shared_head.norm.weight", H));
    return w;
  }

  void report(std::int64_t bytes) {
    if (progress_) progress_(bytes, total_);
  }

  Checkpoint& checkpoint_;
  const ModelConfig& c_;
  const WeightOptions options_;
  Ops& ops_;
  Device& device_;
  ThreadPool& pool_;
  const LoadProgress& progress_;
  const Memory memory_;
  ModelWeights weights_;
  std::vector<std::size_t> sizes_;
  std::int64_t total_ = 0;
};

void add_format(EnumSet<WeightFormat>& set, const Weight& weight) {
  if (weight) set.add(weight.format);
}

void add_formats(EnumSet<WeightFormat>& set, const FfnWeights& w) {
  for (const Weight* weight : {&w.gate_proj, &w.up_proj, &w.down_proj}) add_format(set, *weight);
}

void add_formats(EnumSet<WeightFormat>& set, const LayerWeights& layer) {
  const AttentionWeights& a = layer.attention;
  for (const Weight* weight :
       {&a.q_a_proj, &a.q_b_proj, &a.kv_a_proj_with_mqa, &a.o_proj, &a.indexer.wq_b, &a.indexer.wk,
        &a.indexer.weights_proj, &layer.moe.gate}) {
    add_format(set, *weight);
  }
  add_formats(set, layer.mlp);
  add_formats(set, layer.moe.shared_experts);
  for (const auto* experts : {&layer.moe.gate_proj, &layer.moe.up_proj, &layer.moe.down_proj}) {
    for (const Weight& weight : *experts) add_format(set, weight);
  }
}

}  // namespace

Result<ModelWeights> load_weights(Checkpoint& checkpoint, const ModelConfig& config,
                                  const WeightOptions& options, Ops& ops, ThreadPool& pool,
                                  const LoadProgress& progress) {
  return Loader(checkpoint, config, options, ops, pool, progress, {}).load();
}

Status replace_weights(Checkpoint& checkpoint, const ModelConfig& config,
                       const WeightOptions& options, Ops& ops, ThreadPool& pool,
                       ModelWeights& weights) {
  const LoadProgress silent;
  Loader look(checkpoint, config, options, ops, pool, silent, {.from = Memory::From::kNowhere});
  GLINT_TRY_STATUS(look.load());
  const bool same_sizes = std::equal(
      look.sizes().begin(), look.sizes().end(), weights.owned.begin(), weights.owned.end(),
      [](std::size_t size, const Buffer& buffer) { return size == buffer.bytes(); });
  if (!same_sizes) {
    return invalid("its weights are in other formats than the loaded ones; load it with a restart");
  }
  Loader loader(checkpoint, config, options, ops, pool, silent,
                {.from = Memory::From::kEarlier, .earlier = weights.owned});
  Result<ModelWeights> loaded = loader.load();
  GLINT_CHECK(loaded.ok(), loaded.error().message);  // it was looked at
  loaded.value().owned = std::move(weights.owned);
  weights = std::move(loaded).value();
  return Ok{};
}

EnumSet<WeightFormat> formats_of(const ModelWeights& weights) {
  EnumSet<WeightFormat> set;
  add_format(set, weights.lm_head);
  for (const LayerWeights& layer : weights.layers) add_formats(set, layer);
  for (const MtpWeights& mtp : weights.mtp) {
    add_format(set, mtp.eh_proj);
    add_formats(set, mtp.layer);
  }
  return set;
}

}  // namespace glint
