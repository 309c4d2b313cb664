#include "model/weights.h"

#include <algorithm>
#include <numeric>

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
  // What is read here lies scattered over the files: the disk is asked for all of it at once.
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
  // because absorption sums over its rows; W_UV stays where it is.
  Status split_kv_b(const Weight& kv_b, AttentionWeights& w) {
    if (kv_b.format == WeightFormat::kFp8Block) {
      const std::int64_t nope = c_.qk_nope_head_dim, v = c_.v_head_dim;
      const auto side = static_cast<int>(std::gcd(std::gcd(nope, v), std::int64_t{kFp8Block}));
      return side >= kLeastFp8Block ? split_fp8(kv_b, side, w) : dequantise_halves(kv_b, w);
    }
    GLINT_TRY_STATUS(dequantise_w_uk(kv_b, w));
    each_head([&](std::int64_t h) {
      const std::int64_t first = first_row(h) + c_.qk_nope_head_dim, count = c_.v_head_dim;
      Weight w_uv = kv_b;
      w_uv.rows = count;
      w_uv.data = kv_b.data.slice(0, first, count);
      if (kv_b.scale) w_uv.scale = kv_b.scale.slice(0, first, count);
      w.w_uv.push_back(w_uv);
    });
    return Ok{};
  }

  // Both halves keep their codes. Where a head begins within a block, a block becomes several of
  // side `side`, with the same scale.
  Status split_fp8(const Weight& kv_b, int side, AttentionWeights& w) {
    const std::int64_t heads = c_.num_attention_heads, latent = c_.kv_lora_rank;
    const std::int64_t nope = c_.qk_nope_head_dim, v = c_.v_head_dim;
    const std::int64_t rows_uk = fp8_blocks(nope, side), rows_uv = fp8_blocks(v, side);
    const std::int64_t cols = kv_b.scale.dim(1);
    GLINT_TRY(std::byte * codes, memory(heads * latent * nope));
    GLINT_TRY(std::byte * scales,
              memory(heads * (rows_uk + rows_uv) * cols * size_of(DType::kF32)));
    auto* scale = reinterpret_cast<float*>(scales);
    each_head([&](std::int64_t h) {
      const std::int64_t first = first_row(h);
      const auto scale_of = [&](std::int64_t row) {
        return kv_b.scale.row<float>(row / kFp8Block);
      };
      w.w_uk.push_back({.format = WeightFormat::kFp8Block,
                        .rows = latent,
                        .cols = nope,
                        .data = Tensor(codes + h * latent * nope, DType::kF8E4M3, {latent, nope}),
                        .scale = Tensor(scale, DType::kF32, {cols, rows_uk}),
                        .block_cols = side});
      for (std::int64_t i = 0; i < cols; ++i) {
        for (std::int64_t r = 0; r < rows_uk; ++r) *scale++ = scale_of(first + r * side)[i];
      }
      w.w_uv.push_back({.format = WeightFormat::kFp8Block,
                        .rows = v,
                        .cols = latent,
                        .data = kv_b.data.slice(0, first + nope, v),
                        .scale = Tensor(scale, DType::kF32, {rows_uv, cols}),
                        .block_rows = side});
      for (std::int64_t r = 0; r < rows_uv; ++r) {
        scale = std::copy_n(scale_of(first + nope + r * side), cols, scale);
      }
    });
    pool_.run(heads, [&](std::int64_t h, int) {
      write_transposed(
          reinterpret_cast<const std::uint8_t*>(kv_b.data.data) + first_row(h) * latent, latent,
          nope, reinterpret_cast<std::uint8_t*>(w.w_uk[static_cast<std::size_t>(h)].data.data),
          [](std::uint8_t code) { return code; });
    });
    return Ok{};
  }

  // NVFP4's groups do not survive a transposition, nor do FP8 blocks whose border lies anywhere.
  Status dequantise_w_uk(const Weight& kv_b, AttentionWeights& w) {
    const std::int64_t heads = c_.num_attention_heads, latent = c_.kv_lora_rank;
    const std::int64_t nope = c_.qk_nope_head_dim;
    GLINT_TRY(w.w_uk, matrices(is_bf16(kv_b), heads, latent, nope));
    pool_.run(heads, [&](std::int64_t h, int) {
      const std::vector<float> rows = dequantised(kv_b, first_row(h), nope);
      const Tensor& out = w.w_uk[static_cast<std::size_t>(h)].data;
      with_float_type(out.dtype, [&]<class T>(T) {
        write_transposed(rows.data(), latent, nope, out.ptr<T>(), from_float<T>);
      });
    });
    return Ok{};
  }

  Status dequantise_halves(const Weight& kv_b, AttentionWeights& w) {
    GLINT_TRY_STATUS(dequantise_w_uk(kv_b, w));
    const std::int64_t heads = c_.num_attention_heads, v = c_.v_head_dim;
    GLINT_TRY(w.w_uv, matrices(is_bf16(kv_b), heads, v, c_.kv_lora_rank));
    pool_.run(heads, [&](std::int64_t h, int) {
      const std::vector<float> rows = dequantised(kv_b, first_row(h) + c_.qk_nope_head_dim, v);
      const Tensor& out = w.w_uv[static_cast<std::size_t>(h)].data;
      with_float_type(out.dtype, [&]<class T>(T) {
        std::transform(rows.begin(), rows.end(), out.ptr<T>(), from_float<T>);
      });
    });
    return Ok{};
  }

  template <class F>
  void each_head(F f) const {
    for (std::int64_t h = 0; h < c_.num_attention_heads; ++h) f(h);
  }
  // Of head h in kv_b_proj.
  std::int64_t first_row(std::int64_t h) const { return h * (c_.qk_nope_head_dim + c_.v_head_dim); }
  bool is_bf16(const Weight& kv_b) const {
    return kv_b.format == WeightFormat::kBF16 ||
           (kv_b.format != WeightFormat::kF32 && options_.activations == DType::kBF16);
  }
  static std::vector<float> dequantised(const Weight& weight, std::int64_t first,
                                        std::int64_t count) {
    std::vector<float> rows(static_cast<std::size_t>(count * weight.cols));
    for (std::int64_t r = 0; r < count; ++r) {
      dequantize_row(weight, first + r, &rows[static_cast<std::size_t>(r * weight.cols)]);
    }
    return rows;
  }

  // New memory, owned by the weights.
  Result<std::byte*> memory(std::int64_t bytes) {
    Buffer buffer = make_host_device()->allocate(static_cast<std::size_t>(bytes));
    if (!buffer.data()) {
      return Error{
          ErrorCode::kResourceExhausted,
          str("no room for ", human_bytes(static_cast<double>(bytes)), " of kv_b_proj's halves")};
    }
    std::byte* const data = buffer.data();
    weights_.owned.push_back(std::move(buffer));
    return data;
  }

  // `count` matrices [rows, cols] in new memory.
  Result<std::vector<Weight>> matrices(bool in_bf16, std::int64_t count, std::int64_t rows,
                                       std::int64_t cols) {
    const DType dtype = in_bf16 ? DType::kBF16 : DType::kF32;
    const std::int64_t bytes = rows * cols * size_of(dtype);
    GLINT_TRY(std::byte * data, memory(count * bytes));
    std::vector<Weight> weights;
    for (std::int64_t i = 0; i < count; ++i) {
      weights.push_back({.format = in_bf16 ? WeightFormat::kBF16 : WeightFormat::kF32,
                         .rows = rows,
                         .cols = cols,
                         .data = Tensor(data + i * bytes, dtype, {rows, cols})});
    }
    return weights;
  }

  // out[k][r] = cast(from[r][k]); a block of columns at a time, so that reads stay in the cache.
  template <class From, class To, class Cast>
  static void write_transposed(const From* values, std::int64_t cols, std::int64_t rows, To* out,
                               Cast cast) {
    constexpr std::int64_t kBlock = 16;
    for (std::int64_t k0 = 0; k0 < cols; k0 += kBlock) {
      const From* from = values + k0;
      const std::int64_t count = std::min(kBlock, cols - k0);
      for (std::int64_t r = 0; r < rows; ++r, from += cols) {
        for (std::int64_t k = 0; k < count; ++k) out[(k0 + k) * rows + r] = cast(from[k]);
      }
    }
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
