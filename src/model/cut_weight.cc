#include "model/cut_weight.h"

#include <cstring>
#include <numeric>

#include "base/str.h"
#include "base/thread_pool.h"

namespace glint {
namespace {

struct Extent {
  std::int64_t begin = 0, count = 0;
};

Result<std::byte*> take(std::int64_t bytes, const CutMemory& memory) {
  Buffer buffer = make_host_device()->allocate(static_cast<std::size_t>(bytes));
  if (!buffer.data()) {
    return exhausted(str("no room for ", human_bytes(bytes), " of a part of a weight"));
  }
  memory.owned.push_back(std::move(buffer));
  return memory.owned.back().data();
}

// These rows and columns as exact f32.
Result<Weight> numbers(const Weight& whole, Extent rows, Extent cols, const CutMemory& memory) {
  GLINT_TRY(std::byte* const to, take(rows.count * cols.count * size_of(DType::kF32), memory));
  const Tensor data(to, DType::kF32, {rows.count, cols.count});
  memory.pool.run(rows.count, [&](std::int64_t r, int) {
    std::vector<float> row(static_cast<std::size_t>(whole.cols));
    dequantize_row(whole, rows.begin + r, row.data());
    std::copy_n(row.begin() + cols.begin, cols.count, data.row<float>(r));
  });
  return Weight{.format = WeightFormat::kF32,
                .rows = rows.count,
                .cols = cols.count,
                .data = data,
                .id = whole.id};
}

// Columns [begin, begin + count) of a dense matrix, dense.
Result<Tensor> copy_columns(const Tensor& whole, Extent cols, const CutMemory& memory) {
  const std::int64_t rows = whole.dim(0), bytes = cols.count * size_of(whole.dtype);
  GLINT_TRY(std::byte* const to, take(rows * bytes, memory));
  const std::byte* const from = whole.data + cols.begin * size_of(whole.dtype);
  const std::int64_t stride = whole.stride[0] * size_of(whole.dtype);
  memory.pool.run(rows, [&](std::int64_t r, int) {
    std::memcpy(to + r * bytes, from + r * stride, static_cast<std::size_t>(bytes));
  });
  return Tensor(to, whole.dtype, {rows, cols.count});
}

// Scales [rows, cols] of blocks that `place` finds among the whole matrix's.
template <class Place>
Result<Tensor> scales_of(const Weight& whole, std::int64_t rows, std::int64_t cols,
                         const CutMemory& memory, Place place) {
  GLINT_TRY(std::byte* const to, take(rows * cols * size_of(DType::kF32), memory));
  const Tensor scales(to, DType::kF32, {rows, cols});
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const auto [row, col] = place(i, j);
      scales.row<float>(i)[j] = whole.scale.row<float>(row)[col];
    }
  }
  return scales;
}

// The side of blocks none of which a cut at multiples of `unit` divides; 0: they would be too
// small.
int side_of(std::int64_t unit, int side) {
  const auto common = static_cast<int>(std::gcd(unit, std::int64_t{side}));
  return common >= kLeastFp8Block ? common : 0;
}

}  // namespace

Result<Weight> cut_rows(const Weight& whole, const RowCut& cut, const CutMemory& memory) {
  const bool is_fp8 = whole.format == WeightFormat::kFp8Block;
  const int side = is_fp8 ? side_of(cut.unit, whole.block_rows) : 0;
  if (is_fp8 && side == 0) {
    return numbers(whole, {cut.begin, cut.count}, {0, whole.cols}, memory);
  }
  if (cut.count == whole.rows) return whole;
  Weight part = whole;
  part.rows = cut.count;
  part.data = whole.data.slice(0, cut.begin, cut.count);
  if (whole.format == WeightFormat::kNvfp4) {
    part.scale = whole.scale.slice(0, cut.begin, cut.count);
  }
  if (is_fp8) {
    part.block_rows = side;
    GLINT_TRY(part.scale, scales_of(whole, fp8_blocks(cut.count, side), whole.scale.dim(1), memory,
                                    [&](std::int64_t i, std::int64_t j) {
                                      return std::pair((cut.begin + i * side) / whole.block_rows,
                                                       j);
                                    }));
  }
  return part;
}

Result<Weight> cut_columns(const Weight& whole, int index, int count, const CutMemory& memory) {
  if (count == 1) return whole;
  const std::int64_t n = whole.cols / count;
  const Extent cols = {index * n, n};
  const bool is_fp8 = whole.format == WeightFormat::kFp8Block;
  const bool is_nvfp4 = whole.format == WeightFormat::kNvfp4;
  const int side = is_fp8 ? side_of(n, whole.block_cols) : 0;
  if ((is_fp8 && side == 0) || (is_nvfp4 && n % kNvfp4Group)) {
    return numbers(whole, {0, whole.rows}, cols, memory);
  }
  Weight part = whole;
  part.cols = n;
  const int packed = is_nvfp4 ? 2 : 1;  // columns in a byte
  GLINT_TRY(part.data, copy_columns(whole.data, {cols.begin / packed, n / packed}, memory));
  if (is_nvfp4) {
    const Extent groups = {cols.begin / kNvfp4Group, n / kNvfp4Group};
    GLINT_TRY(part.scale, copy_columns(whole.scale, groups, memory));
  }
  if (is_fp8) {
    part.block_cols = side;
    GLINT_TRY(part.scale, scales_of(whole, whole.scale.dim(0), fp8_blocks(n, side), memory,
                                    [&](std::int64_t i, std::int64_t j) {
                                      return std::pair(i,
                                                       (cols.begin + j * side) / whole.block_cols);
                                    }));
  }
  return part;
}

bool is_summed(const ModelTensor& tensor, const ModelPartition& partition) {
  const bool has_cut_columns = tensor.split == Split::kCols || tensor.split == Split::kExpertCols;
  return has_cut_columns && !partition.is_whole(tensor);
}

Result<Weight> part_of(const Weight& whole, const ModelTensor& tensor,
                       const ModelPartition& partition, int slice, const CutMemory& memory) {
  const int tp = partition.shape.tp, slices = partition.shape.num_slices();
  if (!partition.is_divided() || partition.is_whole(tensor)) return whole;
  if (is_summed(tensor, partition)) {
    return cut_columns(whole, partition.tp_rank * partition.own_slices() + slice, slices, memory);
  }
  const std::int64_t share = whole.rows / tp;
  const bool by_heads = tensor.split == Split::kHeads;
  const std::int64_t unit = by_heads ? share / partition.heads.count
                                     : whole.rows / std::gcd(whole.rows, std::int64_t{slices});
  return cut_rows(whole, {partition.tp_rank * share, share, unit}, memory);
}

}  // namespace glint
