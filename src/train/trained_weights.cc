#include "train/trained_weights.h"

#include <algorithm>
#include <cstring>

#include "base/str.h"
#include "base/thread_pool.h"
#include "checkpoint/memory_source.h"
#include "model/inventory.h"
#include "train/parameter_file.h"
#include "train/parameter_part.h"

namespace glint {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::int64_t kBlock = 1 << 15;

std::size_t element_bytes(StoredType type) { return type == StoredType::kF32 ? 4 : 2; }

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
      return invalid(
          str(result.name, " is stored in ", name_of(weight.format),
              "; training needs bf16 or f32, as glint quantize --format bf16 writes it"));
    }
  } else {
    GLINT_TRY(data, checkpoint.vector(result.name, tensor.cols));
  }
  result.type = data.dtype == DType::kF32 ? StoredType::kF32 : StoredType::kBF16;
  result.bytes = data.bytes();
  return result;
}

Result<Buffer> memory_for(std::size_t bytes, const TrainPeers& peers = {}) {
  GLINT_TRY_STATUS(peers.expect_memory("the weights take", static_cast<std::int64_t>(bytes)));
  Buffer memory = make_host_device()->allocate(bytes);
  if (memory.data()) return memory;
  return exhausted(str("no memory for ", human_bytes(bytes), " of weights"));
}

void round_to(StoredType type, std::span<const float> values, std::byte* to) {
  if (type == StoredType::kF32) {
    std::ranges::copy(values, reinterpret_cast<float*>(to));
  } else {
    std::ranges::transform(values, reinterpret_cast<BF16*>(to), to_bf16);
  }
}

void round_to(StoredType type, std::span<const float> values, std::byte* to, ThreadPool& pool) {
  pool.run_blocks(std::ssize(values), kBlock, [&](std::int64_t begin, std::int64_t end) {
    const auto at = static_cast<std::size_t>(begin), size = static_cast<std::size_t>(end - begin);
    round_to(type, values.subspan(at, size), to + at * element_bytes(type));
  });
}

}  // namespace

Result<TrainedWeights> TrainedWeights::make(LoadedModel& model, const TrainPeers& peers) {
  const std::string dir = model.options().dir;
  GLINT_TRY(Checkpoint checkpoint, Checkpoint::open(dir));
  GLINT_TRY_STATUS(peers.expect_room_for_copies(checkpoint));
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
      bytes += round_up(one.bytes.size(), kAlignment);
      all.tensors_.push_back(std::move(one));
    }
  }
  GLINT_TRY(all.memory_, memory_for(bytes, peers));
  all.belong_to_one_rank_ = !peers.is_alone();
  std::byte* at = all.memory_.data();
  for (StoredTensor& tensor : all.tensors_) {
    std::memcpy(at, tensor.bytes.data(), tensor.bytes.size());
    tensor.bytes = {at, tensor.bytes.size()};
    at += round_up(tensor.bytes.size(), kAlignment);
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

void TrainedWeights::write(const Parameter& p, std::span<const float> values, LoadedModel& model,
                           ThreadPool& pool) {
  if (model.ops().device().is_host()) write_copies(p, values, model, pool);
  if (!belong_to_one_rank_ && !speaks_for(p.tensor, model.shard())) return;
  std::vector<float> turned;
  if (p.is_kv_b()) {
    turned.resize(values.size());
    to_checkpoint_order(p, values, turned);
  }
  const std::span<const float> part = p.is_kv_b() ? turned : values;
  const std::int64_t size = p.tensor.elements();
  const std::size_t first = first_.at(p.tensor.name);
  // In a stretch of several experts each is a tensor of its own.
  std::vector<Stretch> all;
  for (Stretch rest : stretches_of(p.tensor, box_of(p.tensor, model.shard()))) {
    while (rest.count > 0) {
      const std::int64_t count = std::min(rest.count, size - rest.in_whole % size);
      all.push_back({rest.in_whole, rest.in_part, count});
      rest = {rest.in_whole + count, rest.in_part + count, rest.count - count};
    }
  }
  const auto write_one = [&](const Stretch& stretch, ThreadPool* own) {
    const StoredTensor& tensor =
        tensors_[first + static_cast<std::size_t>(stretch.in_whole / size)];
    // tensors_ only reads.
    std::byte* const to =
        memory_.data() + (tensor.bytes.data() - memory_.data()) +
        static_cast<std::size_t>(stretch.in_whole % size) * element_bytes(tensor.type);
    const auto from = part.subspan(static_cast<std::size_t>(stretch.in_part),
                                   static_cast<std::size_t>(stretch.count));
    own ? round_to(tensor.type, from, to, *own) : round_to(tensor.type, from, to);
  };
  if (all.size() == 1) return write_one(all[0], &pool);
  pool.run(std::ssize(all),
           [&](std::int64_t i, int) { write_one(all[static_cast<std::size_t>(i)], nullptr); });
}

void TrainedWeights::write(const ModelTensor& all, std::span<const float> whole, ThreadPool& pool) {
  const auto size = static_cast<std::size_t>(all.elements());
  for (int copy = 0; copy < all.num_copies(); ++copy) {
    const auto at = static_cast<std::size_t>(copy);
    const StoredTensor& tensor = tensors_[first_.at(all.name) + at];
    // tensors_ only reads.
    std::byte* const to = memory_.data() + (tensor.bytes.data() - memory_.data());
    round_to(tensor.type, whole.subspan(at * size, size), to, pool);
  }
}

void TrainedWeights::write_copies(const Parameter& p, std::span<const float> values,
                                  LoadedModel& model, ThreadPool& pool) const {
  std::size_t at = 0;
  const auto write_one = [&](const Tensor& data) {
    const auto size = static_cast<std::size_t>(data.size());
    const bool is_here =
        data.data >= memory_.data() && data.data < memory_.data() + memory_.bytes();
    const StoredType type = data.dtype == DType::kF32 ? StoredType::kF32 : StoredType::kBF16;
    if (!is_here) round_to(type, values.subspan(at, size), data.data, pool);
    at += size;
  };
  const auto write_stack = [&](const WeightStack& stack) {
    for (std::int64_t i = 0; i < stack.count; ++i) write_one(stack[i].data);
  };
  const Held held = p.tensor.held(model.weights());
  if (Tensor* const* vector = std::get_if<Tensor*>(&held)) write_one(**vector);
  if (Weight* const* matrix = std::get_if<Weight*>(&held)) write_one((*matrix)->data);
  if (WeightStack* const* experts = std::get_if<WeightStack*>(&held)) write_stack(**experts);
  if (const KvHalves* const halves = std::get_if<KvHalves>(&held)) {
    write_stack(*halves->w_uk);
    write_stack(*halves->w_uv);
  }
}

Status TrainedWeights::place(LoadedModel& model) const {
  if (model.ops().device().is_host()) return Ok{};
  return model.update_weights(checkpoint());
}

std::vector<float> TrainedWeights::read(const ModelTensor& all, ThreadPool& pool) const {
  std::vector<float> values(static_cast<std::size_t>(all.parameters()));
  std::size_t at = first_.at(all.name), done = 0;
  for (int copy = 0; copy < all.num_copies(); ++copy, ++at) {
    const StoredTensor& tensor = tensors_[at];
    float* const to = &values[done];
    pool.run_blocks(all.elements(), kBlock, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        to[i] = tensor.type == StoredType::kF32
                    ? reinterpret_cast<const float*>(tensor.bytes.data())[i]
                    : to_float(reinterpret_cast<const BF16*>(tensor.bytes.data())[i]);
      }
    });
    done += static_cast<std::size_t>(all.elements());
  }
  return values;
}

void TrainedWeights::read(const Parameter& p, std::span<float> values, ThreadPool& pool) const {
  from_checkpoint_order(p, read(p.tensor, pool), values);
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
