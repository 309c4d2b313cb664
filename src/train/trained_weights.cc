#include "train/trained_weights.h"

#include <algorithm>
#include <cstring>

#include "base/memory.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "checkpoint/memory_source.h"
#include "model/inventory.h"
#include "train/parameter_file.h"

namespace glint {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::int64_t kBlock = 1 << 15;

// The tensor as the checkpoint stores it; f16 as f32.
Result<StoredTensor> stored(const ModelTensor& tensor, int copy, Checkpoint& checkpoint) {
  StoredTensor result = {.name = tensor.name_of_copy(copy), .shape = {tensor.cols}};
  Tensor data;
  if (tensor.is_matrix()) {
    GLINT_TRY(const Weight weight, checkpoint.weight(result.name, tensor.rows, tensor.cols));
    result.name += ".weight";
    result.shape = {tensor.rows, tensor.cols};
    data = weight.data;
    if (weight.format != WeightFormat::kF32 && weight.format != WeightFormat::kBF16) {
      return invalid(str(result.name, " is stored in ", name_of(weight.format),
                         "; training needs a checkpoint in bf16 or f32"));
    }
  } else {
    GLINT_TRY(data, checkpoint.vector(result.name, tensor.cols));
  }
  result.type = data.dtype == DType::kF32 ? StoredType::kF32 : StoredType::kBF16;
  result.bytes = data.bytes();
  return result;
}

Result<Buffer> memory_for(std::size_t bytes) {
  if (const std::int64_t free = available_memory(); static_cast<std::int64_t>(bytes) > free) {
    return Error{ErrorCode::kResourceExhausted,
                 str("the weights take ", human_bytes(static_cast<double>(bytes)), ", and ",
                     human_bytes(static_cast<double>(free)), " are free")};
  }
  Buffer memory = make_host_device()->allocate(bytes);
  if (memory.data()) return memory;
  return Error{ErrorCode::kResourceExhausted,
               str("no memory for ", human_bytes(static_cast<double>(bytes)), " of weights")};
}

// f(values, bytes of the same elements) for blocks of one copy of a parameter, on all threads.
template <class F>
void for_blocks(std::int64_t size, ThreadPool& pool, F f) {
  pool.run((size + kBlock - 1) / kBlock, [&](std::int64_t block, int) {
    f(block * kBlock, std::min(size, (block + 1) * kBlock));
  });
}

void round_to(StoredType type, std::span<const float> values, std::byte* to, ThreadPool& pool) {
  for_blocks(
      static_cast<std::int64_t>(values.size()), pool, [&](std::int64_t begin, std::int64_t end) {
        if (type == StoredType::kF32) {
          std::copy(&values[0] + begin, &values[0] + end, reinterpret_cast<float*>(to) + begin);
        } else {
          std::transform(&values[0] + begin, &values[0] + end, reinterpret_cast<BF16*>(to) + begin,
                         to_bf16);
        }
      });
}

}  // namespace

Result<TrainedWeights> TrainedWeights::make(LoadedModel& model) {
  const std::string dir = model.options().dir;
  GLINT_TRY(Checkpoint checkpoint, Checkpoint::open(dir));
  GLINT_TRY_STATUS(checkpoint.expect_room_for_copies());
  const ModelConfig& config = model.config();
  const bool has_mtp = holds_mtp_layer(config, checkpoint.source());
  TrainedWeights all;
  all.name_ = dir;
  std::size_t bytes = 0;
  for (const ModelTensor& tensor : model_tensors(config)) {
    if (config.is_mtp(tensor.layer) && !has_mtp) continue;
    all.first_[tensor.name] = all.tensors_.size();
    for (int copy = 0; copy < tensor.num_copies(); ++copy) {
      GLINT_TRY(StoredTensor one, stored(tensor, copy, checkpoint));
      bytes += (one.bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
      all.tensors_.push_back(std::move(one));
    }
  }
  GLINT_TRY(all.memory_, memory_for(bytes));
  std::byte* at = all.memory_.data();
  for (StoredTensor& tensor : all.tensors_) {
    std::memcpy(at, tensor.bytes.data(), tensor.bytes.size());
    tensor.bytes = {at, tensor.bytes.size()};
    at += (tensor.bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
  }
  GLINT_TRY_STATUS(model.update_weights(all.checkpoint()));
  return all;
}

Result<TrainedWeights> TrainedWeights::copy() const {
  TrainedWeights all;
  all.name_ = name_;
  all.tensors_ = tensors_;
  all.first_ = first_;
  GLINT_TRY(all.memory_, memory_for(memory_.bytes()));
  for (StoredTensor& tensor : all.tensors_) {
    const auto offset = tensor.bytes.data() - memory_.data();
    tensor.bytes = {all.memory_.data() + offset, tensor.bytes.size()};
  }
  all.take(*this);
  return all;
}

void TrainedWeights::take(const TrainedWeights& other) {
  GLINT_CHECK(memory_.bytes() == other.memory_.bytes(), "weights of another model");
  std::memcpy(memory_.data(), other.memory_.data(), memory_.bytes());
}

void TrainedWeights::write(const Parameters& parameters, std::span<const float> values,
                           LoadedModel& model, ThreadPool& pool) {
  for (const Parameter& p : parameters.all()) {
    write(p,
          values.subspan(static_cast<std::size_t>(p.offset), static_cast<std::size_t>(p.count())),
          model, pool);
  }
}

void TrainedWeights::write(const Parameter& p, std::span<const float> values, LoadedModel& model,
                           ThreadPool& pool) {
  std::size_t at = first_.at(p.tensor.name);
  const auto to = [&](std::size_t i) {  // tensors_ only reads
    return memory_.data() + (tensors_[i].bytes.data() - memory_.data());
  };
  if (p.is_kv_b()) {
    round_to(tensors_[at].type, to_checkpoint_order(p, values), to(at), pool);
    if (!model.ops().device().is_host()) return;
    const KvHalves halves = std::get<KvHalves>(p.tensor.held(model.weights()));
    const auto keys = values.first(static_cast<std::size_t>(p.gradient.size()));
    round_to(tensors_[at].type, keys, halves.w_uk->data.data, pool);
    return;
  }
  const auto size = static_cast<std::size_t>(p.tensor.elements());
  for (int copy = 0; copy < p.tensor.num_copies(); ++copy, ++at) {
    round_to(tensors_[at].type, values.subspan(static_cast<std::size_t>(copy) * size, size), to(at),
             pool);
  }
}

Status TrainedWeights::place(LoadedModel& model) const {
  if (model.ops().device().is_host()) return Ok{};
  return model.update_weights(checkpoint());
}

void TrainedWeights::read(const Parameters& parameters, std::span<float> values,
                          ThreadPool& pool) const {
  for (const Parameter& p : parameters.all()) {
    read(p, values.subspan(static_cast<std::size_t>(p.offset), static_cast<std::size_t>(p.count())),
         pool);
  }
}

void TrainedWeights::read(const Parameter& p, std::span<float> values, ThreadPool& pool) const {
  std::vector<float> stored(values.size());
  std::size_t at = first_.at(p.tensor.name), done = 0;
  for (int copy = 0; copy < p.tensor.num_copies(); ++copy, ++at) {
    const StoredTensor& tensor = tensors_[at];
    float* const to = &stored[done];
    for_blocks(p.tensor.elements(), pool, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        to[i] = tensor.type == StoredType::kF32
                    ? reinterpret_cast<const float*>(tensor.bytes.data())[i]
                    : to_float(reinterpret_cast<const BF16*>(tensor.bytes.data())[i]);
      }
    });
    done += static_cast<std::size_t>(p.tensor.elements());
  }
  from_checkpoint_order(p, stored, values);
}

std::vector<TensorSpec> TrainedWeights::specs() const {
  std::vector<TensorSpec> specs;
  for (const StoredTensor& tensor : tensors_) {
    specs.push_back({.name = tensor.name, .type = tensor.type, .shape = tensor.shape});
  }
  return specs;
}

Checkpoint TrainedWeights::checkpoint() const {
  return Checkpoint(std::make_unique<MemorySource>(name_, tensors_));
}

}  // namespace glint
