#include "model/null_weights.h"

#include "base/ceil_div.h"
#include "model/cut_weight.h"
#include "model/kv_b.h"
#include "tensor/make_stack.h"

namespace glint {
namespace {

class Maker {
 public:
  Maker(const ModelConfig& config, const ModelPartition& partition,
        const NullWeightOptions& options, Device& device)
      : c_(config), partition_(partition), o_(options), device_(device) {}

  ModelWeights make() {
    fill(weights_, [](const ModelTensor&) { return true; });
    for (int slice = 1; slice < o_.slices; ++slice) {
      fill(weights_.slices.emplace_back(),
           [&](const ModelTensor& tensor) { return is_summed(tensor, partition_); });
    }
    filling_ = &weights_;
    if (partition_.is_last() && !weights_.lm_head) {  // tied to the embedding
      weights_.lm_head = {.rows = weights_.embed_tokens.dim(0),
                          .cols = c_.hidden_size,
                          .data = weights_.embed_tokens,
                          .id = id_of(weights_.tensors.front())};
    }
    return std::move(weights_);
  }

 private:
  template <class Wanted>
  void fill(ModelWeights& to, Wanted wanted) {
    to.layers.resize(static_cast<std::size_t>(c_.num_hidden_layers));
    if (o_.with_mtp && partition_.is_last()) {
      to.mtp.resize(static_cast<std::size_t>(c_.num_nextn_predict_layers));
    }
    to.tensors = model_tensors(c_);
    filling_ = &to;
    for (const ModelTensor& tensor : to.tensors) {
      to.is_held.push_back(partition_.holds(tensor, c_, o_.with_mtp) && wanted(tensor));
      if (!to.is_held.back()) continue;
      std::visit([&](auto held) { make(tensor, held); }, tensor.held(to));
    }
  }

  std::int64_t share(std::int64_t n) const { return ceil_div(n, o_.tp); }
  std::int64_t rows_of(const ModelTensor& t) const {
    const bool cut = t.split == Split::kRows || t.split == Split::kHeads ||
                     t.split == Split::kVocab || t.split == Split::kExpertRows;
    return cut && !partition_.is_whole(t) ? share(t.rows) : t.rows;
  }
  std::int64_t cols_of(const ModelTensor& t) const {
    return is_summed(t, partition_) ? ceil_div(share(t.cols), o_.slices) : t.cols;
  }
  int id_of(const ModelTensor& tensor) const {
    return static_cast<int>(&tensor - filling_->tensors.data());
  }

  std::byte* memory(const Tensor& like) {
    weights_.owned.push_back(
        device_.allocate(static_cast<std::size_t>(like.size() * size_of(like.dtype))));
    return weights_.owned.back().data();
  }
  Tensor tensor_of(DType dtype, std::initializer_list<std::int64_t> dims) {
    Tensor tensor(nullptr, dtype, dims);
    tensor.data = memory(tensor);
    return tensor;
  }

  WeightStack stack(WeightFormat format, std::int64_t count, std::int64_t rows, std::int64_t cols,
                    int id) {
    const auto make = [this](DType dtype, std::initializer_list<std::int64_t> dims) {
      return tensor_of(dtype, dims);
    };
    WeightStack s = make_stack(format, count, rows, cols, make, make);
    s.id = id;
    return s;
  }
  Weight weight(WeightFormat format, std::int64_t rows, std::int64_t cols, int id) {
    return stack(format, 1, rows, cols, id)[0];
  }

  void make(const ModelTensor& t, Tensor* tensor) {
    if (!t.is_matrix()) {
      *tensor = tensor_of(t.is_f32 ? DType::kF32 : DType::kBF16, {t.cols});
    } else {
      *tensor = tensor_of(o_.format(t) == WeightFormat::kF32 ? DType::kF32 : DType::kBF16,
                          {rows_of(t), t.cols});
    }
    tensor->id = id_of(t);
  }
  void make(const ModelTensor& t, Weight* to) {
    *to = weight(o_.format(t), rows_of(t), cols_of(t), id_of(t));
  }
  void make(const ModelTensor& t, WeightStack* to) {
    *to = stack(o_.format(t), partition_.experts.count, rows_of(t), cols_of(t), id_of(t));
  }
  // As split_kv_b leaves them.
  void make(const ModelTensor& t, KvHalves halves) {
    const std::int64_t heads = share(c_.num_attention_heads), latent = c_.kv_lora_rank;
    const std::int64_t nope = c_.qk_nope_head_dim, v = c_.v_head_dim;
    const auto [uk, uv, side] = kv_formats(o_.format(t), c_, o_.activations);
    *halves.w_uk = stack(uk, heads, latent, nope, id_of(t));
    *halves.w_uv = stack(uv, heads, v, latent, id_of(t));
    halves.w_uv->half = 1;
    if (uk != WeightFormat::kFp8Block) return;
    halves.w_uk->block_cols = halves.w_uv->block_rows = side;
    halves.w_uk->scale =
        tensor_of(DType::kF32, {heads, fp8_blocks(latent), fp8_blocks(nope, side)});
    halves.w_uv->scale = tensor_of(DType::kF32, {heads, fp8_blocks(v, side), fp8_blocks(latent)});
  }

  const ModelConfig& c_;
  const ModelPartition& partition_;
  const NullWeightOptions& o_;
  Device& device_;
  ModelWeights weights_;
  ModelWeights* filling_ = nullptr;  // weights_, or the others of its slices
};

}  // namespace

ModelWeights null_weights(const ModelConfig& config, const ModelPartition& partition,
                          const NullWeightOptions& options, Device& device) {
  return Maker(config, partition, options, device).make();
}

}  // namespace glint
