#include "train/parameters.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/ceil_div.h"
#include "base/str.h"
#include "train/as_tensor.h"
#include "train/optimizer.h"
#include "train/parameter_part.h"

namespace glint {
namespace {

bool is_trainable(WeightFormat format) {
  return format == WeightFormat::kF32 || format == WeightFormat::kBF16;
}

// Lays the gradients of each section out one after another in `memory`, and tells the tape; without
// memory it only counts.
class Walk {
 public:
  Walk(TapeOps& tape, const ModelPartition& partition, std::byte* memory = nullptr)
      : tape_(tape), partition_(partition), memory_(memory) {}

  Status visit(const ModelTensor& tensor, Held held) {
    tensor_ = &tensor;
    using Kind = ParameterSection::Kind;
    const Kind kind = is_borrowed(tensor, partition_)          ? Kind::kBorrowed
                      : is_dealt_out(tensor, partition_.shape) ? Kind::kExperts
                      : is_divided(tensor, partition_.shape)   ? Kind::kDivided
                                                               : Kind::kWhole;
    at_ = static_cast<std::size_t>(kind);
    return std::visit([&](auto weight) { return place(weight); }, held);
  }

  std::vector<Parameter> all = {};
  std::array<ParameterSection, 4> sections = {{{.kind = ParameterSection::Kind::kWhole},
                                               {.kind = ParameterSection::Kind::kDivided},
                                               {.kind = ParameterSection::Kind::kExperts},
                                               {.kind = ParameterSection::Kind::kBorrowed}}};

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

  std::int64_t end() const { return sections[at_].offset + sections[at_].count; }
  Parameter& add() { return all.emplace_back(Parameter{.tensor = *tensor_, .offset = end()}); }

  Tensor take(std::initializer_list<std::int64_t> dims) {
    Tensor gradient(nullptr, DType::kF32, dims);
    if (memory_) gradient.data = memory_ + end() * static_cast<std::int64_t>(sizeof(float));
    sections[at_].count += gradient.size();
    return gradient;
  }
  template <class Weights>
  void train(const Weights& weights, const Tensor& gradient) {
    if (memory_) tape_.train(weights, gradient);
  }

  TapeOps& tape_;
  const ModelPartition& partition_;
  std::byte* memory_;
  const ModelTensor* tensor_ = nullptr;
  std::size_t at_ = 0;  // the section of the tensor
};

Status walk_over(ModelWeights& weights, Walk& walk) {
  Status status = Ok{};
  visit(weights, [&](const ModelTensor& tensor, Held held) {
    if (tensor.is_trained && status.ok()) status = walk.visit(tensor, held);
  });
  return status;
}

}  // namespace

Result<Parameters> Parameters::make(ModelWeights& weights, TapeOps& tape,
                                    const ModelPartition& partition, const TrainPeers& peers) {
  const MeshShape& shape = partition.shape;
  Walk measure(tape, partition);
  GLINT_TRY_STATUS(walk_over(weights, measure));
  std::int64_t padded = 0, count = 0;
  for (ParameterSection& section : measure.sections) {
    if (section.kind == ParameterSection::Kind::kWhole) section.shares = shape.tp * shape.dp;
    if (section.kind == ParameterSection::Kind::kDivided) section.shares = shape.dp;
    // Whole blocks of the norm a share: then its sum is that of one rank.
    const std::int64_t unit = section.shares == 1 ? 1 : section.shares * kNormBlock;
    section.share = round_up(section.count, unit) / section.shares;
    section.offset = padded;
    padded += section.padded();
    count += section.count;
  }
  const auto bytes = padded * static_cast<std::int64_t>(sizeof(float));
  const std::string wanted = human_bytes(bytes);
  Device& device = tape.device();
  GLINT_TRY_STATUS(peers.expect_memory(str("the gradients of ", count, " parameters take"), bytes));
  Parameters parameters;
  parameters.device_ = &device;
  parameters.memory_ = device.allocate(static_cast<std::size_t>(bytes));
  if (!parameters.memory_.data()) {
    return exhausted(str("no room on ", device.name(), " for ", wanted, " of gradients"));
  }
  if (!device.is_host()) {
    parameters.fetched_ = device.allocate_pinned(static_cast<std::size_t>(bytes));
    if (!parameters.fetched_.data()) {
      return exhausted(str("no memory of the host for ", wanted, " of gradients"));
    }
    std::memset(parameters.fetched_.data(), 0, parameters.fetched_.bytes());
  }
  Walk walk(tape, partition, parameters.memory_.data());
  for (std::size_t i = 0; i < walk.sections.size(); ++i) {
    walk.sections[i].offset = measure.sections[i].offset;
  }
  GLINT_TRY_STATUS(walk_over(weights, walk));
  parameters.all_ = std::move(walk.all);
  for (std::size_t i = 0; i < parameters.all_.size(); ++i) {
    parameters.place_of_[parameters.all_[i].tensor.name] = i;
  }
  for (const ParameterSection& section : measure.sections) {
    if (section.count > 0) parameters.sections_.push_back(section);
  }
  parameters.padded_ = padded;
  parameters.set_zero();
  return parameters;
}

const Parameter* Parameters::find(const ModelTensor& tensor) const {
  const auto found = place_of_.find(tensor.name);
  return found == place_of_.end() ? nullptr : &all_[found->second];
}

std::int64_t Parameters::count() const {
  std::int64_t count = 0;
  for (const ParameterSection& section : sections_) count += section.count;
  return count;
}

std::span<float> Parameters::flat() {
  GLINT_CHECK(sections_.size() == 1, "parameters that ranks divide are not one after another");
  return padded().first(static_cast<std::size_t>(sections_[0].count));
}

void Parameters::add_borrowed(Comm& pp) {
  for (const Parameter& p : all_) {
    if (p.tensor.role != TensorRole::kEmbedding) continue;
    const Tensor mine = as_tensor(values_of(p));
    if (pp.rank() > 0) pp.send(mine, 0);
    if (lent_to_ < 0) continue;
    std::vector<float> theirs(static_cast<std::size_t>(p.count()));
    pp.recv(as_tensor(theirs), lent_to_);
    std::ranges::transform(values_of(p), theirs, values_of(p).begin(), std::plus());
  }
}

void Parameters::give_borrowed(Comm& pp) {
  for (const Parameter& p : all_) {
    if (p.tensor.role != TensorRole::kEmbedding) continue;
    if (pp.rank() > 0) pp.recv(as_tensor(values_of(p)), 0);
    if (lent_to_ >= 0) pp.send(as_tensor(values_of(p)), lent_to_);
  }
}

std::span<float> Parameters::padded() {
  const Buffer& on_host = device_->is_host() ? memory_ : fetched_;
  return {reinterpret_cast<float*>(on_host.data()), static_cast<std::size_t>(padded_)};
}

void Parameters::fetch() {
  if (!device_->is_host()) device_->copy_out(fetched_.data(), memory_.data(), memory_.bytes());
}

void Parameters::set_zero() { fill_zero(*device_, memory_.data(), memory_.bytes()); }

}  // namespace glint
