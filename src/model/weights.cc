#include "model/weights.h"

#include "base/file.h"
#include "base/str.h"
#include "model/kv_b.h"

namespace glint {
namespace {

// Finds the tensors of the table, one after another.
class Finder {
 public:
  Finder(Checkpoint& checkpoint, const ModelConfig& config, const WeightOptions& options,
         ThreadPool& pool)
      : checkpoint_(checkpoint), c_(config), options_(options), pool_(pool) {}

  Result<ModelWeights> find() {
    prefetch();
    weights_.layers.resize(static_cast<std::size_t>(c_.num_hidden_layers));
    if (options_.with_mtp && (!options_.shard || options_.shard->is_last())) {
      weights_.mtp.resize(static_cast<std::size_t>(c_.num_nextn_predict_layers));
    }
    weights_.tensors = model_tensors(c_);
    for (const ModelTensor& tensor : weights_.tensors) {
      const bool is_loaded = tensor.layer < c_.num_hidden_layers || options_.with_mtp;
      weights_.is_held.push_back(is_loaded && is_mine(tensor));
      if (!weights_.is_held.back()) continue;
      GLINT_TRY_STATUS(
          std::visit([&](auto held) { return load(tensor, held); }, tensor.held(weights_)));
    }
    const bool needs_head = !options_.shard || options_.shard->is_last();
    if (needs_head &&
        !weights_.lm_head) {  // tied, but a head that is there all the same is the one to use
      const char* name = checkpoint_.has_weight("lm_head") ? "lm_head" : "model.embed_tokens";
      GLINT_TRY(weights_.lm_head, checkpoint_.weight(name, c_.vocab_size, c_.hidden_size));
    }
    // Later all is read from front to back: in one piece, not around these pages.
    for (const auto& scale : scales_read_) uncache_pages(scale);
    return std::move(weights_);
  }

 private:
  bool is_mine(const ModelTensor& tensor) const {
    if (!options_.shard) return true;
    if (tensor.role == TensorRole::kEmbedding && !options_.with_mtp)
      return options_.shard->is_first();
    return options_.shard->holds(tensor, c_);
  }

  // These tensors lie scattered over the files: the disk is asked for all of them at once.
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

  Status load(const ModelTensor& tensor, Tensor* vector) {
    if (tensor.is_matrix()) return load_embedding(tensor, *vector);
    GLINT_TRY(*vector, tensor.is_f32 ? checkpoint_.vector_f32(tensor.name, tensor.cols)
                                     : checkpoint_.vector(tensor.name, tensor.cols));
    return Ok{};
  }

  Status load_embedding(const ModelTensor& tensor, Tensor& table) {
    GLINT_TRY(const Weight weight, matrix(tensor));
    if (weight.format != WeightFormat::kF32 && weight.format != WeightFormat::kBF16) {
      return invalid(
          str(tensor.name, ".weight is ", name_of(weight.format), "; expected f32 or bf16"));
    }
    table = weight.data;
    return Ok{};
  }

  Status load(const ModelTensor& tensor, Weight* weight) {
    GLINT_TRY(*weight, matrix(tensor));
    return Ok{};
  }

  Status load(const ModelTensor& tensor, WeightStack* experts) {
    std::vector<Weight>& list = weights_.lists.emplace_back();
    const ExpertRange mine =
        options_.shard ? options_.shard->experts : ExpertRange{0, tensor.num_experts};
    for (int expert = mine.first; expert < mine.first + mine.count; ++expert) {
      GLINT_TRY(Weight weight, matrix(tensor, expert));
      list.push_back(std::move(weight));
    }
    *experts = stack_of(list);
    return Ok{};
  }

  Status load(const ModelTensor& tensor, KvHalves halves) {
    GLINT_TRY(const Weight kv_b, matrix(tensor));
    GLINT_TRY_STATUS(split_kv_b(kv_b, {c_, options_.activations, pool_, weights_.owned}, halves));
    check_weight("w_uk", (*halves.w_uk)[0]);
    check_weight("w_uv", (*halves.w_uv)[0]);
    return Ok{};
  }

  Result<Weight> matrix(const ModelTensor& tensor, int copy = 0) {
    GLINT_TRY(Weight weight,
              checkpoint_.weight(tensor.name_of_copy(copy), tensor.rows, tensor.cols));
    check_weight(tensor.name.c_str(), weight);
    weight.id = static_cast<int>(&tensor - weights_.tensors.data());
    return weight;
  }

  Checkpoint& checkpoint_;
  const ModelConfig& c_;
  const WeightOptions options_;
  ThreadPool& pool_;
  ModelWeights weights_;
  std::vector<std::span<const std::byte>> scales_read_;  // that were on disk only
};

// Calls `visit` for each matrix of what a tensor of the table is in the model.
struct Matrices {
  const ModelTensor& tensor;
  const std::function<void(const ModelTensor&, const Weight&)>& visit;

  void operator()(Tensor*) const {}
  void operator()(Weight* weight) const { visit(tensor, *weight); }
  void operator()(WeightStack* weights) const {
    for (std::int64_t i = 0; i < weights->count; ++i) visit(tensor, (*weights)[i]);
  }
  void operator()(KvHalves halves) const {
    (*this)(halves.w_uk);
    (*this)(halves.w_uv);
  }
};

}  // namespace

Result<ModelWeights> find_weights(Checkpoint& checkpoint, const ModelConfig& config,
                                  const WeightOptions& options, ThreadPool& pool) {
  GLINT_TRY_STATUS(checkpoint.expect_room_for_copies());
  return Finder(checkpoint, config, options, pool).find();
}

void visit(ModelWeights& weights, const std::function<void(const ModelTensor&, Held)>& visit) {
  for (const ModelTensor& tensor : weights.tensors) {
    if (!weights.has(tensor)) continue;
    visit(tensor, tensor.held(weights));
    const bool is_tied = weights.lm_head && weights.lm_head.id < 0;
    if (tensor.role == TensorRole::kEmbedding && is_tied) visit(tensor, &weights.lm_head);
  }
}

void visit_matrices(ModelWeights& weights,
                    const std::function<void(const ModelTensor&, const Weight&)>& on_matrix) {
  visit(weights, [&](const ModelTensor& tensor, Held held) {
    std::visit(Matrices{tensor, on_matrix}, held);
  });
}

std::int64_t bytes_of(ModelWeights& weights) {
  std::int64_t bytes = 0;
  visit(weights, [&](const ModelTensor&, Held held) {
    if (Tensor* const* tensor = std::get_if<Tensor*>(&held)) {
      bytes += static_cast<std::int64_t>((*tensor)->bytes().size());
    }
  });
  visit_matrices(weights, [&](const ModelTensor& tensor, const Weight& weight) {
    const bool is_tied = tensor.role == TensorRole::kEmbedding;  // counted above
    if (!is_tied) bytes += bytes_of(weight);
  });
  return bytes;
}

void add_needs(ModelWeights& weights, Capabilities& need) {
  const ModelTensor* last = nullptr;
  WeightFormat format = {};
  visit_matrices(weights, [&](const ModelTensor& tensor, const Weight& weight) {
    need.weights.add(weight.format);
    if (tensor.num_experts && last == &tensor && weight.format != format) need.mixed_stacks = true;
    last = &tensor;
    format = weight.format;
  });
}

}  // namespace glint
