#include "train/trained_weights.h"

#include <algorithm>
#include <cstring>

#include "base/ceil_div.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "checkpoint/memory_source.h"
#include "model/inventory.h"
#include "train/as_tensor.h"
#include "train/parameter_file.h"

namespace glint {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::int64_t kBlock = 1 << 15;

std::size_t element_bytes(StoredType type) { return type == StoredType::kF32 ? 4 : 2; }

StoredType type_of(bool is_f32) { return is_f32 ? StoredType::kF32 : StoredType::kBF16; }

// The tensor as the checkpoint stores it; f16 as f32.
Result<TensorSpec> spec_of(const ModelTensor& tensor, int copy, Checkpoint& checkpoint) {
  TensorSpec spec = {.name = tensor.name_of_copy(copy), .shape = {tensor.cols}};
  if (!tensor.is_matrix()) {
    GLINT_TRY(const Tensor vector, checkpoint.vector(spec.name, tensor.cols));
    spec.type = type_of(vector.dtype == DType::kF32);
    return spec;
  }
  GLINT_TRY(const WeightFormat format, checkpoint.format(spec.name, tensor.rows, tensor.cols));
  spec.name += ".weight";
  if (format != WeightFormat::kF32 && format != WeightFormat::kBF16) {
    return invalid(str(spec.name, " is stored in ", name_of(format),
                       "; training needs bf16 or f32, as glint quantize --format bf16 writes it"));
  }
  spec.type = type_of(format == WeightFormat::kF32);
  spec.shape = {tensor.rows, tensor.cols};
  return spec;
}

Result<Tensor> data_of(const ModelTensor& tensor, int copy, Checkpoint& checkpoint) {
  const std::string name = tensor.name_of_copy(copy);
  if (!tensor.is_matrix()) return checkpoint.vector(name, tensor.cols);
  GLINT_TRY(const Weight weight, checkpoint.weight(name, tensor.rows, tensor.cols));
  return weight.data;
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

Result<TrainedWeights> TrainedWeights::make(LoadedModel& model, const TrainPeers& peers,
                                            bool whole) {
  TrainedWeights all;
  all.name_ = model.options().dir;
  all.belong_to_one_rank_ = !peers.is_alone();
  if (all.belong_to_one_rank_ && !whole) all.part_ = model.partition();
  GLINT_TRY(Checkpoint checkpoint, Checkpoint::open(all.name_));
  GLINT_TRY_STATUS(peers.expect_room_for_copies(checkpoint));
  GLINT_TRY_STATUS(all.find(model.config(), checkpoint));
  GLINT_TRY_STATUS(all.allocate(peers));
  GLINT_TRY_STATUS(all.fill(checkpoint));
  if (all.part_) all.files_ = std::move(checkpoint);
  GLINT_TRY_STATUS(model.update_weights(all.checkpoint()));
  return all;
}

Status TrainedWeights::find(const ModelConfig& config, Checkpoint& checkpoint) {
  const bool has_mtp = holds_mtp_layer(config, checkpoint.source());
  for (const ModelTensor& tensor : model_tensors(config, checkpoint.source())) {
    Entry entry = {.tensor = tensor, .box = {}, .first = tensors_.size()};
    const bool is_here = !part_ || part_->holds(tensor, config, has_mtp);
    if (is_here) entry.box = box_of(tensor, part_.value_or(ModelPartition()));
    for (int copy = 0; copy < tensor.num_copies(); ++copy) {
      GLINT_TRY(TensorSpec spec, spec_of(tensor, copy, checkpoint));
      StoredTensor& one = tensors_.emplace_back();
      one.name = spec.name, one.type = spec.type, one.shape = spec.shape;
      if (is_here && tensor.is_matrix()) one.shape = {entry.box.rows, entry.box.cols};
      specs_.push_back(std::move(spec));
    }
    place_of_[tensor.name] = table_.size();
    table_.push_back(std::move(entry));
  }
  return Ok{};
}

// Gives what is here its places from `begin` on; bytes of all.
std::size_t TrainedWeights::lay_out(std::byte* begin) {
  std::size_t bytes = 0;
  for (const Entry& entry : table_) {
    for (std::int64_t copy = 0; copy < entry.box.copies; ++copy) {
      StoredTensor& tensor =
          tensors_[entry.first + static_cast<std::size_t>(entry.box.copy + copy)];
      const std::size_t size =
          static_cast<std::size_t>(entry.box.rows * entry.box.cols) * element_bytes(tensor.type);
      if (begin) tensor.bytes = {begin + bytes, size};
      bytes += round_up(size, kAlignment);
    }
  }
  return bytes;
}

// All look before one takes any.
Status TrainedWeights::allocate(const TrainPeers& peers) {
  const std::size_t bytes = lay_out(nullptr);
  auto each = static_cast<std::int64_t>(bytes);
  const bool has_all = belong_to_one_rank_ && !part_;  // and the others have parts
  if (has_all) each = (each + (peers.here() - 1) * ceil_div(each, peers.size())) / peers.here();
  GLINT_TRY_STATUS(peers.expect_memory(
      has_all ? "the weights, all on the first rank, take on average" : "the weights take", each));
  memory_ = make_host_device()->allocate(bytes);
  if (!memory_.data()) return exhausted(str("no memory for ", human_bytes(each), " of weights"));
  lay_out(memory_.data());
  return Ok{};
}

Status TrainedWeights::fill(Checkpoint& checkpoint) {
  for (const Entry& entry : table_) {
    const auto& [tensor, box, first] = entry;
    for (std::int64_t copy = box.copy; copy < box.copy + box.copies; ++copy) {
      GLINT_TRY(const Tensor data, data_of(tensor, static_cast<int>(copy), checkpoint));
      const std::size_t number = first + static_cast<std::size_t>(copy);
      const std::size_t size = element_bytes(tensors_[number].type);
      for (const Stretch& s : stretches_of(tensor, {0, 1, box.row, box.rows, box.col, box.cols})) {
        std::memcpy(at(number) + static_cast<std::size_t>(s.in_part) * size,
                    data.data + static_cast<std::size_t>(s.in_whole) * size,
                    static_cast<std::size_t>(s.count) * size);
      }
      checkpoint.release_copies();
    }
  }
  return Ok{};
}

// tensors_ only reads.
std::byte* TrainedWeights::at(std::size_t tensor) const {
  return memory_.data() + (tensors_[tensor].bytes.data() - memory_.data());
}

Result<TrainedWeights> TrainedWeights::copy(const TrainPeers& peers) const {
  TrainedWeights all;
  all.name_ = name_;
  all.belong_to_one_rank_ = belong_to_one_rank_;
  all.part_ = part_;
  all.table_ = table_;
  all.place_of_ = place_of_;
  all.specs_ = specs_;
  all.tensors_ = tensors_;
  GLINT_TRY_STATUS(all.allocate(peers));
  all.take(*this);
  return all;
}

void TrainedWeights::take(const TrainedWeights& other) {
  GLINT_CHECK(memory_.bytes() == other.memory_.bytes(), "weights of another model");
  std::memcpy(memory_.data(), other.memory_.data(), memory_.bytes());
}

std::vector<TrainedWeights::Piece> TrainedWeights::pieces_of(
    const ModelTensor& tensor, const ModelPartition& partition) const {
  const Entry& entry = entry_of(tensor);
  const auto piece = [&](std::int64_t copy, std::int64_t begin, std::int64_t in_part,
                         std::int64_t count) -> Piece {
    const std::size_t number = entry.first + static_cast<std::size_t>(copy);
    const StoredType type = tensors_[number].type;
    return {at(number) + static_cast<std::size_t>(begin) * element_bytes(type), type, in_part,
            count};
  };
  std::vector<Piece> all;
  if (part_) {
    const std::int64_t each = entry.box.rows * entry.box.cols;
    for (std::int64_t c = 0; c < entry.box.copies; ++c)
      all.push_back(piece(entry.box.copy + c, 0, c * each, each));
    return all;
  }
  // In a stretch of several experts each is a tensor of its own.
  const std::int64_t size = tensor.elements();
  for (Stretch rest : stretches_of(tensor, box_of(tensor, partition))) {
    while (rest.count > 0) {
      const std::int64_t count = std::min(rest.count, size - rest.in_whole % size);
      all.push_back(piece(rest.in_whole / size, rest.in_whole % size, rest.in_part, count));
      rest = {rest.in_whole + count, rest.in_part + count, rest.count - count};
    }
  }
  return all;
}

void TrainedWeights::write(const Parameter& p, std::span<const float> values, LoadedModel& model,
                           ThreadPool& pool) {
  if (model.ops().device().is_host()) write_copies(p, values, model, pool);
  if (!belong_to_one_rank_ && !speaks_for(p.tensor, model.partition())) return;
  std::vector<float> turned;
  if (p.is_kv_b()) {
    turned.resize(values.size());
    to_checkpoint_order(p, values, turned);
  }
  const std::span<const float> part = p.is_kv_b() ? turned : values;
  const std::vector<Piece> all = pieces_of(p.tensor, model.partition());
  const auto from = [&](const Piece& piece) {
    return part.subspan(static_cast<std::size_t>(piece.in_part),
                        static_cast<std::size_t>(piece.count));
  };
  if (all.size() == 1) return round_to(all[0].type, from(all[0]), all[0].at, pool);
  pool.run(std::ssize(all), [&](std::int64_t i, int) {
    const Piece& piece = all[static_cast<std::size_t>(i)];
    round_to(piece.type, from(piece), piece.at);
  });
}

void TrainedWeights::write(const ModelTensor& all, std::span<const float> whole, ThreadPool& pool) {
  GLINT_CHECK(!part_, "a whole tensor where a part is");
  const auto size = static_cast<std::size_t>(all.elements());
  const std::size_t first = entry_of(all).first;
  for (int copy = 0; copy < all.num_copies(); ++copy) {
    const auto c = static_cast<std::size_t>(copy);
    round_to(tensors_[first + c].type, whole.subspan(c * size, size), at(first + c), pool);
  }
}

void TrainedWeights::give_embedding(Comm& pp) {
  if (pp.size() == 1) return;
  for (const Entry& entry : table_) {
    if (entry.tensor.role != TensorRole::kEmbedding) continue;
    const Tensor bytes = as_tensor(std::span(at(entry.first), tensors_[entry.first].bytes.size()));
    if (pp.rank() == 0) pp.send(bytes, pp.size() - 1);
    if (pp.rank() + 1 == pp.size()) pp.recv(bytes, 0);
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

std::vector<float> TrainedWeights::read(const ModelTensor& tensor, ThreadPool& pool) const {
  const Entry& entry = entry_of(tensor);
  std::vector<float> values(static_cast<std::size_t>(entry.box.size()));
  const std::int64_t each = entry.box.rows * entry.box.cols;
  for (std::int64_t c = 0; c < entry.box.copies; ++c) {
    const std::size_t number = entry.first + static_cast<std::size_t>(entry.box.copy + c);
    to_floats({at(number), tensors_[number].type, c * each, each}, values, pool);
  }
  return values;
}

void TrainedWeights::read(const Parameter& p, const ModelPartition& partition,
                          std::span<float> values, ThreadPool& pool) const {
  std::vector<float> stored(values.size());
  for (const Piece& piece : pieces_of(p.tensor, partition)) to_floats(piece, stored, pool);
  from_checkpoint_order(p, stored, values);
}

// The numbers of a piece at their places in the part.
void TrainedWeights::to_floats(const Piece& piece, std::span<float> part, ThreadPool& pool) {
  pool.run_blocks(piece.count, kBlock, [&](std::int64_t begin, std::int64_t end) {
    float* const to = part.data() + piece.in_part;
    for (std::int64_t i = begin; i < end; ++i) {
      to[i] = piece.type == StoredType::kF32 ? reinterpret_cast<const float*>(piece.at)[i]
                                             : to_float(reinterpret_cast<const BF16*>(piece.at)[i]);
    }
  });
}

Status TrainedWeights::save(const CheckpointWriter& writer, const ModelTensor& tensor,
                            std::span<const float> whole, ThreadPool& pool) const {
  const auto size = static_cast<std::size_t>(tensor.elements());
  for (int copy = 0; copy < tensor.num_copies(); ++copy) {
    const auto c = static_cast<std::size_t>(copy);
    const std::size_t number = entry_of(tensor).first + c;
    std::vector<std::byte> bytes(size * element_bytes(specs_[number].type));
    round_to(specs_[number].type, whole.subspan(c * size, size), bytes.data(), pool);
    GLINT_TRY_STATUS(writer.write(number, 0, bytes));
  }
  return Ok{};
}

Status TrainedWeights::save_others(const CheckpointWriter& writer,
                                   std::span<const ModelTensor> saved) {
  for (const auto& [tensor, box, first] : table_) {
    const std::string& name = tensor.name;
    if (std::ranges::any_of(saved, [&](const ModelTensor& one) { return one.name == name; })) {
      continue;
    }
    for (int copy = 0; copy < tensor.num_copies(); ++copy) {
      const std::size_t number = first + static_cast<std::size_t>(copy);
      std::span<const std::byte> bytes = tensors_[number].bytes;
      Tensor data;
      if (files_) {
        GLINT_TRY(data, data_of(tensor, copy, *files_));
        bytes = data.bytes();
      }
      GLINT_TRY_STATUS(writer.write(number, 0, bytes));
      if (files_) files_->release_copies();
    }
  }
  return Ok{};
}

Checkpoint TrainedWeights::checkpoint() const {
  return Checkpoint(std::make_unique<MemorySource>(name_, tensors_, part_.has_value()));
}

}  // namespace glint
