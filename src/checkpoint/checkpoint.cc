#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/str.h"
#include "checkpoint/safetensors.h"

namespace glint {
namespace {

// "P.mlp.experts.E.gate_proj": where it lies when a layer's experts are stacked.
struct StackedExpert {
  std::string tensor;  // "P.mlp.experts.gate_up_proj"
  std::int64_t expert = 0;
  bool is_half = false;  // one of gate and up, which share a tensor
  bool is_up = false;
};

std::optional<StackedExpert> parse_stacked(std::string_view name) {
  constexpr std::string_view kExperts = ".mlp.experts.";
  const std::size_t at = name.find(kExperts);
  if (at == name.npos) return {};
  const std::string_view rest = name.substr(at + kExperts.size());
  StackedExpert where;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), where.expert);
  const std::string_view projection = rest.substr(static_cast<std::size_t>(end - rest.data()));
  if (error != std::errc() || where.expert < 0) return {};
  where.is_up = projection == ".up_proj";
  where.is_half = where.is_up || projection == ".gate_proj";
  if (!where.is_half && projection != ".down_proj") return {};
  where.tensor =
      str(name.substr(0, at + kExperts.size()), where.is_half ? "gate_up_proj" : "down_proj");
  return where;
}

std::int64_t blocks(std::int64_t n) { return (n + kFp8Block - 1) / kFp8Block; }

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& dir) {
  GLINT_TRY(std::unique_ptr<TensorSource> source, SafetensorsSource::open(dir));
  return Checkpoint(std::move(source));
}

bool Checkpoint::has_weight(std::string_view name) const {
  if (has(str(name, ".weight")) || has(str(name, ".weight_packed"))) return true;
  const auto stacked = parse_stacked(name);
  return stacked && has(stacked->tensor);
}

Result<Weight> Checkpoint::weight(const std::string& name, std::int64_t rows, std::int64_t cols) {
  GLINT_CHECK(rows > 0 && cols > 0, str(name, " [", rows, ", ", cols, "]"));
  const Shape shape = {rows, cols};
  if (const StoredTensor* data = source_->find(name + ".weight")) {
    if (data->type == StoredType::kF8E4M3) return fp8_block(*data, name, shape);
    if (data->type == StoredType::kU8) return nvfp4(*data, name, shape);
    return dense(*data, name, shape);
  }
  if (const StoredTensor* data = source_->find(name + ".weight_packed")) {
    return nvfp4(*data, name, shape);
  }
  return stacked_expert(name, shape);
}

Result<Tensor> Checkpoint::vector(std::string_view name, std::int64_t size) {
  GLINT_TRY(const StoredTensor* tensor, require(std::string(name)));
  GLINT_TRY_STATUS(expect(*tensor, {StoredType::kBF16, StoredType::kF32}, {size}));
  return view(*tensor);
}

Result<Weight> Checkpoint::dense(const StoredTensor& data, const std::string& name,
                                 const Shape& shape) {
  GLINT_TRY_STATUS(expect(data, {StoredType::kBF16, StoredType::kF32}, shape));
  for (const char* suffix : {".weight_scale_inv", ".weight_scale", ".weight_scale_2"}) {
    if (has(name + suffix)) {
      return invalid(str(in_file(data), " is ", name_of(data.type), " and yet has a ", suffix + 1,
                         "; expected F8_E4M3 or U8 beside it"));
    }
  }
  return Weight{.format = data.type == StoredType::kF32 ? WeightFormat::kF32 : WeightFormat::kBF16,
                .rows = shape[0],
                .cols = shape[1],
                .data = view(data)};
}

Result<Weight> Checkpoint::fp8_block(const StoredTensor& data, const std::string& name,
                                     const Shape& shape) {
  GLINT_TRY_STATUS(expect(data, {StoredType::kF8E4M3}, shape));
  const StoredTensor* scale = source_->find(name + ".weight_scale_inv");
  const StoredTensor* other = source_->find(name + ".weight_scale");
  if (scale && other) {
    return invalid(in_file(data) + " has both a weight_scale_inv and a weight_scale; expected one");
  }
  if (!scale) scale = other;
  if (!scale) {
    return Error{ErrorCode::kNotFound,
                 in_file(data) + " is F8_E4M3, but its weight_scale_inv is missing"};
  }
  GLINT_TRY_STATUS(
      expect(*scale, {StoredType::kF32, StoredType::kBF16}, {blocks(shape[0]), blocks(shape[1])}));
  Weight weight = {.format = WeightFormat::kFp8Block,
                   .rows = shape[0],
                   .cols = shape[1],
                   .data = view(data),
                   .scale = view(*scale)};
  if (scale->type == StoredType::kBF16) {
    const auto* narrow = weight.scale.ptr<BF16>();
    auto* wide = reinterpret_cast<float*>(own(static_cast<std::size_t>(scale->size()) * 4));
    for (std::int64_t i = 0; i < scale->size(); ++i) wide[i] = to_float(narrow[i]);
    weight.scale = Tensor(wide, DType::kF32, {scale->shape[0], scale->shape[1]});
  }
  return weight;
}

Result<Weight> Checkpoint::nvfp4(const StoredTensor& data, const std::string& name,
                                 const Shape& shape) {
  const std::int64_t rows = shape[0], cols = shape[1];
  if (cols % kNvfp4Group) {
    return invalid(str(in_file(data), " is packed, but its ", cols,
                       " inputs are no multiple of 16; expected groups of 16"));
  }
  GLINT_TRY_STATUS(expect(data, {StoredType::kU8}, {rows, cols / 2}));
  GLINT_TRY(const StoredTensor* scale, require(name + ".weight_scale"));
  GLINT_TRY_STATUS(expect(*scale, {StoredType::kF8E4M3}, {rows, cols / kNvfp4Group}));
  const bool is_divisor = data.name.ends_with("_packed");
  const std::string global_name = name + (is_divisor ? ".weight_global_scale" : ".weight_scale_2");
  GLINT_TRY(const float global, scalar(global_name));
  if (!std::isfinite(global) || global < 0 || (is_divisor && global == 0)) {
    return invalid(
        str(in_file(*source_->find(global_name)), " is ", global, "; expected a positive number"));
  }
  return Weight{.format = WeightFormat::kNvfp4,
                .rows = rows,
                .cols = cols,
                .data = view(data),
                .scale = view(*scale),
                .global_scale = is_divisor ? 1 / global : global};
}

Result<Weight> Checkpoint::stacked_expert(const std::string& name, const Shape& shape) {
  const auto where = parse_stacked(name);
  const StoredTensor* data = where ? source_->find(where->tensor) : nullptr;
  if (!data) return require(name + ".weight").take_error();
  const std::int64_t num_experts = data->shape.empty() ? 0 : data->shape[0];
  const std::int64_t stacked_rows = where->is_half ? 2 * shape[0] : shape[0];
  const Shape stacked_shape = {num_experts, stacked_rows, shape[1]};
  GLINT_TRY_STATUS(expect(*data, {StoredType::kBF16, StoredType::kF32}, stacked_shape));
  if (where->expert >= num_experts) {
    return Error{ErrorCode::kNotFound, str(in_file(*data), " has ", num_experts,
                                           " experts; expected one of number ", where->expert)};
  }
  // A view of the expert alone, so that only an unaligned expert is copied, not the whole stack.
  const std::size_t expert_bytes = data->bytes.size() / static_cast<std::size_t>(num_experts);
  const std::size_t part_bytes = where->is_half ? expert_bytes / 2 : expert_bytes;
  const std::size_t begin =
      static_cast<std::size_t>(where->expert) * expert_bytes + (where->is_up ? part_bytes : 0);
  StoredTensor part = {.name = name, .type = data->type, .shape = shape};
  part.bytes = data->bytes.subspan(begin, part_bytes);
  return Weight{.format = data->type == StoredType::kF32 ? WeightFormat::kF32 : WeightFormat::kBF16,
                .rows = shape[0],
                .cols = shape[1],
                .data = view(part)};
}

Result<const StoredTensor*> Checkpoint::require(const std::string& name) const {
  if (const StoredTensor* tensor = source_->find(name)) return tensor;
  return Error{ErrorCode::kNotFound,
               str(source_->name(), ": tensor ", quoted(name), " is missing; the model needs it")};
}

Status Checkpoint::expect(const StoredTensor& tensor, std::initializer_list<StoredType> types,
                          const Shape& shape) const {
  const bool type_fits = std::find(types.begin(), types.end(), tensor.type) != types.end();
  if (type_fits && tensor.shape == shape) return Ok{};
  std::string wanted;
  for (const StoredType type : types) wanted += str(wanted.empty() ? "" : " or ", name_of(type));
  return invalid(str(in_file(tensor), " is ", tensor.describe(), "; expected ", wanted, " ",
                     describe_shape(shape)));
}

Result<float> Checkpoint::scalar(const std::string& name) {
  GLINT_TRY(const StoredTensor* tensor, require(name));
  GLINT_TRY_STATUS(expect(*tensor, {StoredType::kF32}, tensor->shape.empty() ? Shape{} : Shape{1}));
  float value = 0;
  std::memcpy(&value, tensor->bytes.data(), sizeof value);
  return value;
}

std::string Checkpoint::in_file(const StoredTensor& tensor) const {
  return str(source_->file_name(tensor.file), ": tensor ", quoted(tensor.name));
}

Tensor Checkpoint::view(const StoredTensor& tensor) {
  const DType dtype = *to_dtype(tensor.type);
  // Views are read-only by contract; Tensor has no const twin.
  auto* data = const_cast<std::byte*>(tensor.bytes.data());
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(size_of(dtype))) {
    data = own(tensor.bytes.size());
    std::memcpy(data, tensor.bytes.data(), tensor.bytes.size());
  }
  if (tensor.shape.size() == 1) return Tensor(data, dtype, {tensor.shape[0]});
  return Tensor(data, dtype, {tensor.shape[0], tensor.shape[1]});
}

std::byte* Checkpoint::own(std::size_t bytes) {
  owned_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
  return owned_.back().get();
}

}  // namespace glint
