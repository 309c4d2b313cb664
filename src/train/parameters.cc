#include "train/parameters.h"

#include <cstring>

#include "base/memory.h"
#include "base/str.h"
#include "train/optimizer.h"

namespace glint {
namespace {

bool is_trainable(WeightFormat format) {
  return format == WeightFormat::kF32 || format == WeightFormat::kBF16;
}

// Lays the gradients out one after another from `memory`, and tells the tape; without memory it
// only counts.
class Walk {
 public:
  Walk(TapeOps& tape, std::byte* memory) : tape_(tape), memory_(memory) {}

  Status visit(const ModelTensor& tensor, Held held) {
    tensor_ = &tensor;
    return std::visit([&](auto weight) { return place(weight); }, held);
  }

  std::vector<Parameter> all = {};
  std::int64_t count = 0;

 private:
  Status place(Tensor* weight) {
    Parameter& p = add();
    p.gradient =
        weight->rank == 1 ? take({weight->dim(0)}) : take({weight->dim(0), weight->dim(1)});
    train(*weight, p.gradient);
    return Ok{};
  }

  Status place(Weight* weight) {
    GLINT_TRY_STATUS(check(*weight));
    // A head that shares the embedding's tensor adds to its gradient.
    const bool is_tied = tensor_->role == TensorRole::kEmbedding;
    if (!is_tied) {
      Parameter& p = add();
      p.gradient = take({weight->rows, weight->cols});
    }
    train(*weight, all.back().gradient);
    return Ok{};
  }

  Status place(WeightStack* experts) {
    for (std::int64_t e = 0; e < experts->count; ++e) GLINT_TRY_STATUS(check((*experts)[e]));
    Parameter& p = add();
    p.gradient = take({experts->count, experts->rows, experts->cols});
    train(*experts, p.gradient);
    return Ok{};
  }

  Status place(KvHalves halves) {
    const WeightStack &uk = *halves.w_uk, &uv = *halves.w_uv;
    for (const WeightStack* half : {&uk, &uv}) GLINT_TRY_STATUS(check((*half)[0]));
    Parameter& p = add();
    p.gradient = take({uk.count, uk.rows, uk.cols});
    p.gradient_of_values = take({uv.count, uv.rows, uv.cols});
    train(uk, p.gradient);
    train(uv, p.gradient_of_values);
    return Ok{};
  }

  Status check(const Weight& weight) const {
    if (is_trainable(weight.format) && weight.layout == WeightLayout::kRows) return Ok{};
    return invalid(str(tensor_->name, " is stored in ", name_of(weight.format),
                       "; gradients need a checkpoint in bf16 or f32"));
  }

  Parameter& add() { return all.emplace_back(Parameter{.tensor = *tensor_, .offset = count}); }

  Tensor take(std::initializer_list<std::int64_t> dims) {
    Tensor gradient(nullptr, DType::kF32, dims);
    if (memory_) gradient.data = memory_ + count * static_cast<std::int64_t>(sizeof(float));
    count += gradient.size();
    return gradient;
  }
  template <class Weights>
  void train(const Weights& weights, const Tensor& gradient) {
    if (memory_) tape_.train(weights, gradient);
  }

  TapeOps& tape_;
  std::byte* memory_;
  const ModelTensor* tensor_ = nullptr;
};

Status walk_over(ModelWeights& weights, Walk& walk) {
  Status status = Ok{};
  visit(weights, [&](const ModelTensor& tensor, Held held) {
    if (tensor.is_trained && status.ok()) status = walk.visit(tensor, held);
  });
  return status;
}

}  // namespace

Result<Parameters> Parameters::make(ModelWeights& weights, TapeOps& tape, int shares) {
  Walk measure(tape, nullptr);
  GLINT_TRY_STATUS(walk_over(weights, measure));
  // Whole blocks of the norm a share: then its sum is that of one rank.
  const std::int64_t unit = shares == 1 ? 1 : shares * kNormBlock;
  const std::int64_t padded = (measure.count + unit - 1) / unit * unit;
  const auto bytes = padded * static_cast<std::int64_t>(sizeof(float));
  const std::string wanted = human_bytes(static_cast<double>(bytes));
  Device& device = tape.device();
  if (const std::int64_t free = available_memory(); bytes > free) {
    return Error{ErrorCode::kResourceExhausted,
                 str("the gradients of ", measure.count, " parameters take ", wanted, ", and ",
                     human_bytes(static_cast<double>(free)), " are free")};
  }
  Parameters parameters;
  parameters.device_ = &device;
  parameters.memory_ = device.allocate(static_cast<std::size_t>(bytes));
  if (!parameters.memory_.data()) {
    return Error{ErrorCode::kResourceExhausted,
                 str("no room on ", device.name(), " for ", wanted, " of gradients")};
  }
  if (!device.is_host()) {
    parameters.fetched_ = device.allocate_pinned(static_cast<std::size_t>(bytes));
    if (!parameters.fetched_.data()) {
      return Error{ErrorCode::kResourceExhausted,
                   str("no memory of the host for ", wanted, " of gradients")};
    }
    std::memset(parameters.fetched_.data(), 0, parameters.fetched_.bytes());
  }
  Walk walk(tape, parameters.memory_.data());
  GLINT_TRY_STATUS(walk_over(weights, walk));
  parameters.all_ = std::move(walk.all);
  parameters.count_ = walk.count;
  parameters.padded_ = padded;
  parameters.shares_ = shares;
  parameters.set_zero();
  return parameters;
}

std::span<float> Parameters::flat() { return padded().first(static_cast<std::size_t>(count_)); }

std::span<float> Parameters::padded() {
  const Buffer& on_host = device_->is_host() ? memory_ : fetched_;
  return {reinterpret_cast<float*>(on_host.data()), static_cast<std::size_t>(padded_)};
}

void Parameters::fetch() {
  if (!device_->is_host()) device_->copy_out(fetched_.data(), memory_.data(), memory_.bytes());
}

void Parameters::set_zero() { fill_zero(*device_, memory_.data(), memory_.bytes()); }

}  // namespace glint
