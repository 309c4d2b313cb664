#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/contains.h"
#include "base/memory.h"
#include "base/str.h"
#include "checkpoint/safetensors.h"
#include "tensor/fp8.h"

namespace glint {
namespace {

using Types = std::initializer_list<StoredType>;
constexpr Types kDenseTypes = {StoredType::kBF16, StoredType::kF32, StoredType::kF16};
constexpr Types kFp8Types = {StoredType::kF8E4M3};
constexpr const char* kExpectedWeight =
    "; expected a weight in BF16, F32, F16, FP8 (F8_E4M3) or NVFP4 (U8)";
constexpr Types kScaleTypes = {StoredType::kF32, StoredType::kBF16, StoredType::kF16,
                               StoredType::kF8E8M0};

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

// The scales of an FP8 matrix [rows, cols] are one for each row.
bool are_of_rows(const StoredTensor& scale, std::int64_t rows, std::int64_t cols) {
  using Shape = std::vector<std::int64_t>;
  if (scale.shape == Shape{fp8_blocks(rows), fp8_blocks(cols)}) return false;
  return scale.shape == Shape{rows} || scale.shape == Shape{rows, 1};
}

// `data` has the shape of `tensor`, which is a matrix or else a vector.
Tensor shaped(void* data, DType dtype, const StoredTensor& tensor) {
  if (tensor.shape.size() == 2) return Tensor(data, dtype, {tensor.shape[0], tensor.shape[1]});
  return Tensor(data, dtype, {tensor.size()});
}

bool is_aligned(const std::byte* data, DType dtype) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(size_of(dtype)) == 0;
}

WeightFormat dense_format(const Tensor& data) {
  return data.dtype == DType::kF32 ? WeightFormat::kF32 : WeightFormat::kBF16;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& dir) {
  GLINT_TRY(std::unique_ptr<TensorSource> source, SafetensorsSource::open(dir));
  return Checkpoint(std::move(source));
}

std::string stack_of_experts(std::string_view name) {
  const auto stacked = parse_stacked(name);
  return stacked ? stacked->tensor : std::string();
}

const StoredTensor* Checkpoint::stored_weight(std::string_view name) const {
  for (const char* suffix : {".weight", ".weight_packed"}) {
    if (const StoredTensor* own = source_->find(str(name, suffix))) return own;
  }
  const auto stacked = parse_stacked(name);
  return stacked ? source_->find(stacked->tensor) : nullptr;
}

std::int64_t Checkpoint::bytes_of_copies() const {
  std::int64_t bytes = 0;
  for (const StoredTensor& tensor : source_->tensors()) {
    if (becomes_f32(tensor)) {
      bytes += 4 * tensor.size();
    } else if (const auto dtype = to_dtype(tensor.type);
               dtype && !is_aligned(tensor.bytes.data(), *dtype)) {
      bytes += std::ssize(tensor.bytes);
    }
  }
  return bytes;
}

Status Checkpoint::expect_room_for_copies() const {
  const std::int64_t bytes = bytes_of_copies();
  const std::int64_t available = available_memory();
  if (bytes <= available) return Ok{};
  return exhausted(
      str(why_copies(), " ", human_bytes(bytes), ", and ", human_bytes(available), " are free"));
}

std::string Checkpoint::why_copies() const {
  return str(source_->name(),
             ": weights in F16, or in FP8 with a scale for each row, become f32, and those at odd "
             "addresses are copied (saved again in bf16 they are not), which takes");
}

bool Checkpoint::becomes_f32(const StoredTensor& tensor) const {
  if (tensor.type == StoredType::kF16) return true;
  if (tensor.type != StoredType::kF8E4M3 || tensor.shape.size() != 2) return false;
  for (const char* suffix : {"_scale", "_scale_inv"}) {
    const StoredTensor* scale = source_->find(tensor.name + suffix);
    if (scale && are_of_rows(*scale, tensor.shape[0], tensor.shape[1])) return true;
  }
  return false;
}

Result<Weight> Checkpoint::weight(const std::string& name, std::int64_t rows, std::int64_t cols) {
  GLINT_CHECK(rows > 0 && cols > 0, str(name, " [", rows, ", ", cols, "]"));
  const Shape shape = {rows, cols};
  if (const StoredTensor* scale = source_->find(name + ".pre_quant_scale")) {
    return invalid(in_file(*scale) +
                   " scales inputs, which is not supported; take a checkpoint without (no AWQ)");
  }
  if (const StoredTensor* data = source_->find(name + ".weight")) {
    if (data->type == StoredType::kF8E4M3) return fp8(*data, name, shape);
    if (data->type == StoredType::kU8) return nvfp4(*data, name, shape);
    return dense(*data, name, shape);
  }
  if (const StoredTensor* data = source_->find(name + ".weight_packed")) {
    return nvfp4(*data, name, shape);
  }
  if (const StoredTensor* data = source_->find(name + ".qweight")) {
    return invalid(in_file(*data) + " is packed as AWQ or GPTQ" + kExpectedWeight);
  }
  return stacked_expert(name, shape);
}

Result<WeightFormat> Checkpoint::format(const std::string& name, std::int64_t rows,
                                        std::int64_t cols) {
  const std::size_t copies = owned_.size();
  only_checks_ = true;
  Result<Weight> checked = weight(name, rows, cols);
  only_checks_ = false;
  owned_.resize(copies);
  if (!checked.ok()) return std::move(checked).take_error();
  return checked.value().format;
}

Result<Tensor> Checkpoint::vector(std::string_view name, std::int64_t size) {
  GLINT_TRY(const StoredTensor* tensor, require(std::string(name)));
  GLINT_TRY_STATUS(expect(*tensor, kDenseTypes, {size}));
  return view(*tensor);
}

Result<Tensor> Checkpoint::vector_f32(std::string_view name, std::int64_t size) {
  GLINT_TRY(const StoredTensor* tensor, require(std::string(name)));
  GLINT_TRY_STATUS(expect(*tensor, kDenseTypes, {size}));
  return view_f32(*tensor);
}

Result<Weight> Checkpoint::dense(const StoredTensor& data, const std::string& name,
                                 const Shape& shape) {
  if (!contains(kDenseTypes, data.type)) return other_format(data);
  GLINT_TRY_STATUS(expect(data, kDenseTypes, shape));
  for (const char* suffix : {".weight_scale_inv", ".weight_scale", ".weight_scale_2"}) {
    if (has(name + suffix)) {
      return invalid(str(in_file(data), " is ", name_of(data.type), " and yet has a ", suffix + 1,
                         "; expected F8_E4M3 or U8 beside it"));
    }
  }
  const Tensor elements = view(data);
  return Weight{
      .format = dense_format(elements), .rows = shape[0], .cols = shape[1], .data = elements};
}

Result<Weight> Checkpoint::fp8(const StoredTensor& data, const std::string& name,
                               const Shape& shape) {
  GLINT_TRY_STATUS(expect(data, kFp8Types, shape));
  const StoredTensor* scale = source_->find(name + ".weight_scale_inv");
  const StoredTensor* other = source_->find(name + ".weight_scale");
  if (scale && other) {
    return invalid(in_file(data) + " has both a weight_scale_inv and a weight_scale; expected one");
  }
  if (!scale) scale = other;
  if (!scale) {
    return not_found(in_file(data) + " is F8_E4M3, but its weight_scale_inv is missing");
  }
  const std::int64_t rows = shape[0], cols = shape[1];
  if (are_of_rows(*scale, rows, cols)) {
    GLINT_TRY_STATUS(expect(*scale, kScaleTypes, scale->shape));
    const Tensor elements = expand_rows(view(data), view_f32(*scale));
    return Weight{.format = WeightFormat::kF32, .rows = rows, .cols = cols, .data = elements};
  }
  GLINT_TRY(const Tensor scales, block_scales(*scale, {fp8_blocks(rows), fp8_blocks(cols)}));
  return Weight{.format = WeightFormat::kFp8Block,
                .rows = rows,
                .cols = cols,
                .data = view(data),
                .scale = scales};
}

Result<Tensor> Checkpoint::block_scales(const StoredTensor& stored, const Shape& grid) {
  StoredTensor scale = stored;
  if (scale.shape == Shape{grid[0], 1, grid[1], 1}) scale.shape = grid;
  if (scale.size() != 1 || scale.shape == grid) {
    GLINT_TRY_STATUS(expect(scale, kScaleTypes, grid));
    return view_f32(scale);
  }
  GLINT_TRY_STATUS(expect(scale, kScaleTypes, scale.shape));
  const float of_all = *view_f32(scale).ptr<float>();
  auto* filled = reinterpret_cast<float*>(own(static_cast<std::size_t>(grid[0] * grid[1]) * 4));
  std::fill_n(filled, grid[0] * grid[1], of_all);
  return Tensor(filled, DType::kF32, {grid[0], grid[1]});
}

Tensor Checkpoint::expand_rows(const Tensor& codes, const Tensor& scales) {
  const std::int64_t rows = codes.dim(0), cols = codes.dim(1);
  if (only_checks_) return Tensor(nullptr, DType::kF32, {rows, cols});
  const float* scale = scales.ptr<float>();
  auto* wide = reinterpret_cast<float*>(own(static_cast<std::size_t>(rows * cols) * 4));
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    wide[i] = e4m3_to_float(static_cast<std::uint8_t>(codes.data[i])) * scale[i / cols];
  }
  return Tensor(wide, DType::kF32, {rows, cols});
}

Result<Weight> Checkpoint::nvfp4(const StoredTensor& data, const std::string& name,
                                 const Shape& shape) {
  const std::int64_t rows = shape[0], cols = shape[1];
  if (data.type != StoredType::kU8) return other_format(data);
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
  const float factor = is_divisor ? 1 / global : global;
  if (!std::isfinite(global) || !std::isfinite(factor) || !(global > 0)) {
    return invalid(
        str(in_file(*source_->find(global_name)), " is ", global, "; expected a positive number"));
  }
  return Weight{.format = WeightFormat::kNvfp4,
                .rows = rows,
                .cols = cols,
                .data = view(data),
                .scale = view(*scale),
                .global_scale = own_scalar(factor)};
}

// The names of the scales of stacked experts are those of transformers: "gate_up_proj_scale_inv".
Result<Weight> Checkpoint::stacked_expert(const std::string& name, const Shape& shape) {
  const auto where = parse_stacked(name);
  const StoredTensor* data = where ? source_->find(where->tensor) : nullptr;
  if (!data) return require(name + ".weight").take_error();
  const std::int64_t num_experts = data->shape.empty() ? 0 : data->shape[0];
  const std::int64_t rows = where->is_half ? 2 * shape[0] : shape[0], cols = shape[1];
  const bool is_fp8 = data->type == StoredType::kF8E4M3;
  GLINT_TRY_STATUS(expect(*data, is_fp8 ? kFp8Types : kDenseTypes, {num_experts, rows, cols}));
  if (where->expert >= num_experts) {
    return not_found(str(in_file(*data), " has ", num_experts, " experts; expected one of number ",
                         where->expert));
  }
  // The part of this weight in a stack: of a half, the upper or the lower rows.
  const auto part = [&](const StoredTensor& stack, std::int64_t part_rows) {
    const std::size_t parts = where->is_half ? 2 : 1;
    const std::size_t bytes = stack.bytes.size() / static_cast<std::size_t>(num_experts) / parts;
    const std::size_t index = static_cast<std::size_t>(where->expert) * parts + where->is_up;
    StoredTensor found = {.name = name, .type = stack.type, .shape = {part_rows, stack.shape[2]}};
    found.bytes = stack.bytes.subspan(index * bytes, bytes);
    return found;
  };
  const Tensor elements = view(part(*data, shape[0]));
  if (!is_fp8) {
    return Weight{
        .format = dense_format(elements), .rows = shape[0], .cols = cols, .data = elements};
  }
  GLINT_TRY(const StoredTensor* scale, require(where->tensor + "_scale_inv"));
  GLINT_TRY_STATUS(expect(*scale, kScaleTypes, {num_experts, fp8_blocks(rows), fp8_blocks(cols)}));
  if (where->is_half && shape[0] % kFp8Block) {
    return invalid(str(in_file(*data), " holds blocks of both gate_proj and up_proj, whose ",
                       shape[0], " rows are no multiple of 128; expected one tensor an expert"));
  }
  return Weight{.format = WeightFormat::kFp8Block,
                .rows = shape[0],
                .cols = cols,
                .data = elements,
                .scale = view_f32(part(*scale, fp8_blocks(shape[0])))};
}

Result<const StoredTensor*> Checkpoint::require(const std::string& name) const {
  if (const StoredTensor* tensor = source_->find(name)) return tensor;
  return not_found(
      str(source_->name(), ": tensor ", quoted(name), " is missing; the model needs it"));
}

Status Checkpoint::expect(const StoredTensor& tensor, std::initializer_list<StoredType> types,
                          const Shape& shape) const {
  const bool type_fits = contains(types, tensor.type);
  if (type_fits && tensor.shape == shape) return Ok{};
  std::string wanted;
  for (const StoredType type : types) wanted += str(wanted.empty() ? "" : " or ", name_of(type));
  return invalid(str(in_file(tensor), " is ", tensor.describe(), "; expected ", wanted, " ",
                     describe_shape(shape)));
}

Error Checkpoint::other_format(const StoredTensor& data) const {
  return invalid(str(in_file(data), " is ", data.describe(), kExpectedWeight));
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
  if (tensor.type == StoredType::kF16) return view_f32(tensor);
  const DType dtype = *to_dtype(tensor.type);
  // Views are read-only by contract; Tensor has no const twin.
  auto* data = const_cast<std::byte*>(tensor.bytes.data());
  if (is_unread(tensor)) return shaped(data, dtype, tensor);
  if (!is_aligned(data, dtype)) {
    data = own(tensor.bytes.size());
    std::memcpy(data, tensor.bytes.data(), tensor.bytes.size());
  }
  return shaped(data, dtype, tensor);
}

Tensor Checkpoint::view_f32(const StoredTensor& tensor) {
  if (tensor.type == StoredType::kF32) return view(tensor);
  if (is_unread(tensor)) return shaped(nullptr, DType::kF32, tensor);
  auto* wide = reinterpret_cast<float*>(own(static_cast<std::size_t>(tensor.size()) * 4));
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    if (tensor.type == StoredType::kF8E8M0) {
      wide[i] = e8m0_to_float(static_cast<std::uint8_t>(tensor.bytes[static_cast<std::size_t>(i)]));
      continue;
    }
    std::uint16_t word;
    std::memcpy(&word, tensor.bytes.data() + 2 * i, 2);
    wide[i] = tensor.type == StoredType::kF16 ? f16_to_float(word) : to_float(BF16{word});
  }
  return shaped(wide, DType::kF32, tensor);
}

// In memory of its own: the file's is one of many small reads, which happened once already.
Tensor Checkpoint::own_scalar(float value) {
  std::byte* const data = own(sizeof value);
  std::memcpy(data, &value, sizeof value);
  return Tensor(data, DType::kF32, {1});
}

std::byte* Checkpoint::own(std::size_t bytes) {
  owned_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
  return owned_.back().get();
}

}  // namespace glint
