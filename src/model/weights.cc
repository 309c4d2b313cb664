#include "model/weights.h"

#include <algorithm>

#include "base/file.h"
#include "base/str.h"

namespace glint {
namespace {

// Walks the model's tensors in the order of the forward pass.
class Finder {
 public:
  Finder(Checkpoint& checkpoint, const ModelConfig& config, const WeightOptions& options,
         ThreadPool& pool)
      : checkpoint_(checkpoint), c_(config), options_(options), pool_(pool) {}

  Result<ModelWeights> find() {
    prefetch();
    GLINT_TRY(const Weight embed,
              checkpoint_.weight("model.embed_tokens", c_.vocab_size, c_.hidden_size));
    if (embed.format != WeightFormat::kF32 && embed.format != WeightFormat::kBF16) {
      return invalid(
          str("model.embed_tokens.weight is ", name_of(embed.format), "; expected f32 or bf16"));
    }
    weights_.embed_tokens = embed.data;
    for (int i = 0; i < c_.num_hidden_layers; ++i) {
      GLINT_TRY(LayerWeights layer, load_layer(i));
      weights_.layers.push_back(std::move(layer));
    }
    GLINT_TRY(weights_.norm, vector("model.norm.weight", c_.hidden_size));
    const bool is_tied = c_.tie_word_embeddings && !checkpoint_.has_weight("lm_head");
    GLINT_TRY(weights_.lm_head,
              weight(is_tied ? "model.embed_tokens" : "lm_head", c_.vocab_size, c_.hidden_size));
    if (options_.with_mtp) {
      for (int i = c_.num_hidden_layers; i < c_.num_layers_with_mtp(); ++i) {
        GLINT_TRY(MtpWeights mtp, load_mtp(i));
        weights_.mtp.push_back(std::move(mtp));
      }
    }
    // Later all is read from front to back: in one piece, not around these pages.
    for (const auto& scale : scales_read_) uncache_pages(scale);
    return std::move(weights_);
  }

 private:
  // What is read here lies scattered over the files: a disk gets to know all of it at once.
  void prefetch() {
    constexpr std::size_t kSmall = 4096;
    for (const StoredTensor& tensor : checkpoint_.source().tensors()) {
      if (tensor.bytes.empty()) continue;
      // nvfp4's global scales, and scales of blocks that become f32.
      const bool is_scale = tensor.bytes.size() <= kSmall &&
                            tensor.name.find("_scale") != std::string::npos &&
                            (tensor.size() == 1 || tensor.type != StoredType::kF32);
      const bool is_kv_b = tensor.name.find(".kv_b_proj.") != std::string::npos;
      if (!is_scale && !is_kv_b) continue;
      if (!is_kv_b && !is_cached(tensor.bytes)) scales_read_.push_back(tensor.bytes);
      prefetch_pages(tensor.bytes);
    }
  }

  Result<Weight> weight(const std::string& name, std::int64_t rows, std::int64_t cols) {
    return checkpoint_.weight(name, rows, cols);
  }
  Result<Tensor> vector(const std::string& name, std::int64_t size) {
    return checkpoint_.vector(name, size);
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
              weight(prefix + "kv_b_proj", heads * (c_.qk_nope_head_dim + c_.v_head_dim), latent));
    GLINT_TRY_STATUS(split_kv_b(kv_b, w));
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
    const bool is_float = kv_b.format == WeightFormat::kBF16 || kv_b.format == WeightFormat::kF32;
    const bool in_bf16 = kv_b.format == WeightFormat::kBF16 || options_.activations == DType::kBF16;
    GLINT_TRY(w.w_uk, matrices(in_bf16, heads, latent, nope));
    if (!is_float) {
      GLINT_TRY(w.w_uv, matrices(in_bf16, heads, v, latent));
    }
    for (std::int64_t h = 0; is_float && h < heads; ++h) {
      w.w_uv.push_back({.format = kv_b.format,
                        .rows = v,
                        .cols = latent,
                        .data = kv_b.data.slice(0, h * (nope + v) + nope, v)});
    }
    pool_.run(heads, [&](std::int64_t h, int) {
      std::vector<float> rows(static_cast<std::size_t>(std::max(nope, v) * latent));
      const auto read = [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t r = 0; r < count; ++r) {
          dequantize_row(kv_b, h * (nope + v) + first + r,
                         &rows[static_cast<std::size_t>(r * latent)]);
        }
      };
      const auto head = static_cast<std::size_t>(h);
      read(0, nope);
      write_transposed(rows, w.w_uk[head].data);
      if (is_float) return;
      read(nope, v);
      write(rows, w.w_uv[head].data);
    });
    return Ok{};
  }

  // `count` matrices [rows, cols] in new memory.
  Result<std::vector<Weight>> matrices(bool in_bf16, std::int64_t count, std::int64_t rows,
                                       std::int64_t cols) {
    const DType dtype = in_bf16 ? DType::kBF16 : DType::kF32;
    const std::int64_t bytes = rows * cols * size_of(dtype);
    Buffer buffer = make_host_device()->allocate(static_cast<std::size_t>(count * bytes));
    if (!buffer.data()) {
      return Error{ErrorCode::kResourceExhausted,
                   str("no room for ", human_bytes(static_cast<double>(count * bytes)),
                       " of dequantised weights")};
    }
    std::vector<Weight> weights;
    for (std::int64_t i = 0; i < count; ++i) {
      weights.push_back({.format = in_bf16 ? WeightFormat::kBF16 : WeightFormat::kF32,
                         .rows = rows,
                         .cols = cols,
                         .data = Tensor(buffer.data() + i * bytes, dtype, {rows, cols})});
    }
    weights_.owned.push_back(std::move(buffer));
    return weights;
  }

  // `values`, row-major, into `out`.
  static void write(const std::vector<float>& values, const Tensor& out) {
    with_float_type(out.dtype, [&]<class T>(T) {
      T* to = out.ptr<T>();
      const std::int64_t size = out.size();
      for (std::int64_t i = 0; i < size; ++i) to[i] = from_float<T>(values[i]);
    });
  }

  // out[k][r] = values[r][k]; a block of columns at a time, so that reads stay in the cache.
  static void write_transposed(const std::vector<float>& values, const Tensor& out) {
    constexpr std::int64_t kBlock = 16;
    const std::int64_t cols = out.dim(0), rows = out.dim(1);
    with_float_type(out.dtype, [&]<class T>(T) {
      for (std::int64_t k0 = 0; k0 < cols; k0 += kBlock) {
        T* const to = out.row<T>(k0);
        const float* from = values.data() + k0;
        const std::int64_t count = std::min(kBlock, cols - k0);
        for (std::int64_t r = 0; r < rows; ++r, from += cols) {
          for (std::int64_t k = 0; k < count; ++k) to[k * rows + r] = from_float<T>(from[k]);
        }
      }
    });
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
    GLINT_TRY(w.e_score_correction_bias,
              checkpoint_.vector_f32(prefix + "gate.e_score_correction_bias", E));
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

  Checkpoint& checkpoint_;
  const ModelConfig& c_;
  const WeightOptions options_;
  ThreadPool& pool_;
  ModelWeights weights_;
  std::vector<std::span<const std::byte>> scales_read_;  // that were on disk only
};

// Calls the visitors for what is given.
struct Visitor {
  const VisitWeight& on_weight;
  const VisitTensor& on_tensor;

  void operator()(Weight& weight) const {
    if (weight) on_weight(weight);
  }
  void operator()(Tensor& tensor) const {
    if (tensor) on_tensor(tensor);
  }
  void operator()(std::vector<Weight>& weights) const {
    for (Weight& weight : weights) (*this)(weight);
  }
  template <class... Parts>
  void all(Parts&... parts) const {
    ((*this)(parts), ...);
  }

  void operator()(FfnWeights& w) const { all(w.gate_proj, w.up_proj, w.down_proj); }
  void operator()(MoeWeights& w) const {
    all(w.gate, w.e_score_correction_bias);
    for (std::size_t e = 0; e < w.gate_proj.size(); ++e) {
      all(w.gate_proj[e], w.up_proj[e], w.down_proj[e]);
    }
    all(w.shared_experts);
  }
  void operator()(IndexerWeights& w) const {
    all(w.wq_b, w.wk, w.weights_proj, w.k_norm, w.k_norm_bias);
  }
  void operator()(AttentionWeights& w) const {
    all(w.input_layernorm, w.q_a_proj, w.q_a_layernorm, w.q_b_proj, w.kv_a_proj_with_mqa,
        w.kv_a_layernorm, w.w_uk, w.w_uv, w.o_proj, w.indexer);
  }
  void operator()(LayerWeights& w) const {
    all(w.attention, w.post_attention_layernorm, w.mlp, w.moe);
  }
  void operator()(MtpWeights& w) const {
    all(w.enorm, w.hnorm, w.eh_proj, w.layer, w.shared_head_norm);
  }
};

}  // namespace

Result<ModelWeights> find_weights(Checkpoint& checkpoint, const ModelConfig& config,
                                  const WeightOptions& options, ThreadPool& pool) {
  GLINT_TRY_STATUS(checkpoint.expect_room_for_copies());
  return Finder(checkpoint, config, options, pool).find();
}

void visit(ModelWeights& weights, const VisitWeight& on_weight, const VisitTensor& on_tensor) {
  const Visitor visitor = {on_weight, on_tensor};
  visitor(weights.embed_tokens);
  for (LayerWeights& layer : weights.layers) visitor(layer);
  visitor.all(weights.norm, weights.lm_head);
  for (MtpWeights& mtp : weights.mtp) visitor(mtp);
}

EnumSet<WeightFormat> formats_of(ModelWeights& weights) {
  EnumSet<WeightFormat> set;
  visit(
      weights, [&](Weight& weight) { set.add(weight.format); }, [](Tensor&) {});
  return set;
}

}  // namespace glint
