#include "model/weights.h"

#include "base/file.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "model/cut_weight.h"
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
    GLINT_TRY_STATUS(fill(weights_, 0));
    for (int slice = 1; options_.partition && slice < options_.partition->own_slices(); ++slice) {
      GLINT_TRY_STATUS(fill(weights_.slices.emplace_back(), slice));
    }
    const bool needs_head = !options_.partition || options_.partition->is_last();
    if (needs_head && !weights_.lm_head) {  // tied
      const ModelTensor& embedding = weights_.tensors.front();
      GLINT_TRY(Weight head, stored(embedding, "model.embed_tokens"));
      filling_ = &weights_;
      head.id = id_of(embedding);
      GLINT_TRY(weights_.lm_head, cut(head, embedding, 0));
    }
    // Later all is read from front to back: in one piece, not around these pages.
    for (const auto& scale : scales_read_) uncache_pages(scale);
    return std::move(weights_);
  }

 private:
  // Loads all that this rank has of the first slice, or what another slice has beside it.
  Status fill(ModelWeights& to, int slice) {
    to.layers.resize(static_cast<std::size_t>(c_.num_hidden_layers));
    if (options_.with_mtp && (!options_.partition || options_.partition->is_last())) {
      to.mtp.resize(static_cast<std::size_t>(c_.num_nextn_predict_layers));
    }
    to.tensors = model_tensors(c_);
    filling_ = &to, slice_ = slice;
    for (const ModelTensor& tensor : to.tensors) {
      to.is_held.push_back(is_mine(tensor) &&
                           (slice == 0 || is_summed(tensor, *options_.partition)));
      if (!to.is_held.back()) continue;
      GLINT_TRY_STATUS(std::visit([&](auto held) { return load(tensor, held); }, tensor.held(to)));
    }
    return Ok{};
  }

  bool is_mine(const ModelTensor& tensor) const {
    if (!options_.partition) return options_.with_mtp || !c_.is_mtp(tensor.layer);
    return options_.partition->holds(tensor, c_, options_.with_mtp);
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
    vector->id = id_of(tensor);
    return Ok{};
  }

  Status load_embedding(const ModelTensor& tensor, Tensor& table) {
    GLINT_TRY(const Weight weight, matrix(tensor));
    if (weight.format != WeightFormat::kF32 && weight.format != WeightFormat::kBF16) {
      return invalid(
          str(tensor.name, ".weight is ", name_of(weight.format), "; expected f32 or bf16"));
    }
    table = weight.data;
    table.id = weight.id;
    return Ok{};
  }

  Status load(const ModelTensor& tensor, Weight* weight) {
    GLINT_TRY(*weight, matrix(tensor));
    return Ok{};
  }

  Status load(const ModelTensor& tensor, WeightStack* experts) {
    std::vector<Weight>& list = filling_->lists.emplace_back();
    const ModelPartition* const partition = options_.partition;
    const ExpertRange mine = partition ? partition->experts : ExpertRange{0, tensor.num_experts};
    const ExpertSlots slots = partition ? partition->slots_of(tensor.layer, tensor.num_experts)
                                        : first_slots(tensor.num_experts, tensor.num_experts);
    for (int slot = mine.first; slot < mine.first + mine.count; ++slot) {
      GLINT_TRY(Weight weight, matrix(tensor, slots[static_cast<std::size_t>(slot)]));
      list.push_back(std::move(weight));
    }
    *experts = stack_of(list);
    return Ok{};
  }

  Status load(const ModelTensor& tensor, KvHalves halves) {
    GLINT_TRY(const Weight kv_b, whole(tensor, 0));
    HeadRange heads =
        options_.partition ? options_.partition->heads : HeadRange{0, c_.num_attention_heads};
    if (is_of_rank()) heads.first = 0;
    GLINT_TRY_STATUS(
        split_kv_b(kv_b, {c_, heads, options_.activations, pool_, weights_.owned}, halves));
    check_weight("w_uk", (*halves.w_uk)[0]);
    check_weight("w_uv", (*halves.w_uv)[0]);
    return Ok{};
  }

  bool is_of_rank() const { return checkpoint_.source().is_of_rank(); }
  // All that the checkpoint has of it.
  Result<Weight> stored(const ModelTensor& tensor, const std::string& name) {
    std::int64_t rows = tensor.rows, cols = tensor.cols;
    if (is_of_rank() && !options_.partition->is_whole(tensor)) {
      (is_summed(tensor, *options_.partition) ? cols : rows) /= options_.partition->shape.tp;
    }
    return checkpoint_.weight(name, rows, cols);
  }
  Result<Weight> whole(const ModelTensor& tensor, int copy) {
    GLINT_TRY(Weight weight, stored(tensor, tensor.name_of_copy(copy)));
    check_weight(tensor.name.c_str(), weight);
    weight.id = id_of(tensor);
    return weight;
  }
  int id_of(const ModelTensor& tensor) const {
    return static_cast<int>(&tensor - filling_->tensors.data());
  }
  // This rank's part.
  Result<Weight> matrix(const ModelTensor& tensor, int copy = 0) {
    GLINT_TRY(const Weight all, whole(tensor, copy));
    return cut(all, tensor, slice_);
  }
  Result<Weight> cut(const Weight& all, const ModelTensor& tensor, int slice) {
    if (!options_.partition || is_of_rank()) return all;
    GLINT_TRY(const Weight part,
              part_of(all, tensor, *options_.partition, slice, {pool_, filling_->owned}));
    check_weight(tensor.name.c_str(), part);
    return part;
  }

  Checkpoint& checkpoint_;
  const ModelConfig& c_;
  const WeightOptions options_;
  ThreadPool& pool_;
  ModelWeights weights_;
  ModelWeights* filling_ = nullptr;  // weights_ or, of its slices, number `slice_`
  int slice_ = 0;
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
    if (tensor.role == TensorRole::kEmbedding && weights.has_tied_head()) {
      visit(tensor, &weights.lm_head);
    }
  }
  for (ModelWeights& slice : weights.slices) glint::visit(slice, visit);
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
