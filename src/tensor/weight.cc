#include "tensor/weight.h"

#include <array>

#include "base/str.h"
#include "tensor/fp8.h"
#include "tensor/nvfp4.h"

namespace glint {
namespace {

// e4m3_to_float of every code.
constexpr auto kE4m3 = [] {
  std::array<float, 256> values = {};
  for (int code = 0; code < 256; ++code) {
    values[static_cast<std::size_t>(code)] = e4m3_to_float(static_cast<std::uint8_t>(code));
  }
  return values;
}();

[[noreturn]] void refuse(const std::string& message) {
  check_failed(__FILE__, __LINE__, "weights", message);
}

// [..] as the first of [count, ..], `stride` bytes apart.
Tensor stacked(const Tensor& first, std::int64_t count, std::int64_t stride) {
  if (!first) return {};
  GLINT_CHECK(first.rank < 4 && stride % size_of(first.dtype) == 0, "a stack of odd strides");
  Tensor all = first;
  for (int d = first.rank; d > 0; --d) {
    all.shape[d] = first.shape[d - 1];
    all.stride[d] = first.stride[d - 1];
  }
  ++all.rank;
  all.shape[0] = count;
  all.stride[0] = stride / size_of(first.dtype);
  return all;
}

}  // namespace

const char* name_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "f32";
    case WeightFormat::kBF16:
      return "bf16";
    case WeightFormat::kFp8Block:
      return "fp8";
    case WeightFormat::kNvfp4:
      return "nvfp4";
  }
  return "?";
}

std::int64_t bytes_of(const Weight& weight) {
  return std::ssize(weight.data.bytes()) + std::ssize(weight.scale.bytes());
}

std::int64_t bytes_of(const WeightStack& weights) {
  if (!weights) return 0;
  if (weights.each.empty()) return weights.count * bytes_of(weights[0]);
  std::int64_t bytes = 0;
  for (const Weight& weight : weights.each) bytes += bytes_of(weight);
  return bytes;
}

Weight WeightStack::operator[](std::int64_t i) const {
  if (!each.empty()) return each[static_cast<std::size_t>(i)];
  return {.format = format,
          .layout = layout,
          .rows = rows,
          .cols = cols,
          .data = data[i],
          .scale = scale ? scale[i] : Tensor(),
          .block_rows = block_rows,
          .block_cols = block_cols,
          .global_scale = global_scale ? global_scale[i] : Tensor(),
          .id = id,
          .half = half};
}

WeightStack stack_of(std::span<const Weight> each) {
  const Weight& first = each[0];
  for (const Weight& weight : each) {
    GLINT_CHECK(weight.rows == first.rows && weight.cols == first.cols, "a stack of two shapes");
  }
  return {.format = first.format,
          .layout = first.layout,
          .count = std::ssize(each),
          .rows = first.rows,
          .cols = first.cols,
          .id = first.id,
          .half = first.half,
          .each = each};
}

WeightStack stack_of(const Weight& first, std::int64_t count, std::int64_t stride) {
  return {.format = first.format,
          .layout = first.layout,
          .count = count,
          .rows = first.rows,
          .cols = first.cols,
          .data = stacked(first.data, count, stride),
          .scale = stacked(first.scale, count, stride),
          .block_rows = first.block_rows,
          .block_cols = first.block_cols,
          .global_scale = stacked(first.global_scale, count, stride),
          .id = first.id,
          .half = first.half};
}

void check_weight(const char* name, const Weight& w) {
  if (!w) refuse(str(name, " is not given"));
  if (w.layout == WeightLayout::kPacked) return;  // only its backend knows
  DType data = DType::kF32, scale = DType::kF32;
  std::int64_t packed = w.cols, scale_rows = 0, scale_cols = 0;
  switch (w.format) {
    case WeightFormat::kF32:
      break;
    case WeightFormat::kBF16:
      data = DType::kBF16;
      break;
    case WeightFormat::kFp8Block:
      data = DType::kF8E4M3;
      for (const int side : {w.block_rows, w.block_cols}) {
        if (side < kLeastFp8Block || kFp8Block % side)
          refuse(str(name, " has fp8 blocks of ", side));
      }
      scale_rows = fp8_blocks(w.rows, w.block_rows);
      scale_cols = fp8_blocks(w.cols, w.block_cols);
      break;
    case WeightFormat::kNvfp4:
      data = DType::kU8;
      scale = DType::kF8E4M3;
      packed = w.cols / 2;
      scale_rows = w.rows;
      scale_cols = w.cols / kNvfp4Group;
      if (w.cols % kNvfp4Group)
        refuse(str(name, ": ", w.cols, " columns are no whole nvfp4 groups"));
      break;
  }
  const auto is = [](const Tensor& x, DType dtype, std::int64_t m, std::int64_t n) {
    return x && x.rank == 2 && x.dtype == dtype && x.shape[0] == m && x.shape[1] == n &&
           x.is_dense();
  };
  if (!is(w.data, data, w.rows, packed)) {
    refuse(str("the data of ", name, " is ", w.data.describe(), ", but must be ", name_of(data),
               " [", w.rows, ", ", packed, "]"));
  }
  if (scale_rows && !is(w.scale, scale, scale_rows, scale_cols)) {
    refuse(str("the scale of ", name, " is ", w.scale.describe(), ", but must be ", name_of(scale),
               " [", scale_rows, ", ", scale_cols, "]"));
  }
  const Tensor& global = w.global_scale;
  if (w.format == WeightFormat::kNvfp4 && (global.dtype != DType::kF32 || global.size() != 1)) {
    refuse(str("the global scale of ", name, " is ", global.describe(), ", but must be F32 [1]"));
  }
}

float global_scale_of(const Weight& weight) {
  return weight.global_scale ? *weight.global_scale.ptr<float>() : 1;
}

void dequantize_row(const Weight& weight, std::int64_t n, float* out) {
  GLINT_CHECK(n >= 0 && n < weight.rows, "row out of range");
  GLINT_CHECK(weight.layout == WeightLayout::kRows, "a packed weight has no rows");
  const std::int64_t K = weight.cols;
  const std::byte* data = weight.data.data;
  switch (weight.format) {
    case WeightFormat::kF32: {
      const float* row = weight.data.row<float>(n);
      for (std::int64_t k = 0; k < K; ++k) out[k] = row[k];
      return;
    }
    case WeightFormat::kBF16: {
      const BF16* row = weight.data.row<BF16>(n);
      for (std::int64_t k = 0; k < K; ++k) out[k] = to_float(row[k]);
      return;
    }
    case WeightFormat::kFp8Block: {
      const auto* codes = reinterpret_cast<const std::uint8_t*>(data) + n * K;
      const float* scale = weight.scale.row<float>(n / weight.block_rows);
      for (std::int64_t k = 0; k < K; ++k) out[k] = kE4m3[codes[k]] * scale[k / weight.block_cols];
      return;
    }
    case WeightFormat::kNvfp4: {
      const auto* codes = reinterpret_cast<const std::uint8_t*>(data) + n * (K / 2);
      const auto* scale =
          reinterpret_cast<const std::uint8_t*>(weight.scale.data) + n * (K / kNvfp4Group);
      const float global = global_scale_of(weight);
      for (std::int64_t k = 0; k < K; ++k) {
        const int code = codes[k / 2] >> (k % 2 ? 4 : 0) & 15;
        // The inner product is exact in f32 (2 + 4 significant bits), so the order of the two
        // factors is part of the definition, not of the rounding.
        out[k] = e2m1_to_float(code) * e4m3_to_float(scale[k / kNvfp4Group]) * global;
      }
      return;
    }
  }
}

}  // namespace glint
