// Which rows a thread block of a product works on, and how it writes its sums.
#pragma once

#include "backends/cuda/linear/codes.cuh"
#include "backends/cuda/linear/group_tile.cuh"

namespace glint::cuda {

// Tile `number` of the rows; blockIdx.z counts matrices that all rows go through.
template <int kRows>
__device__ RowTile find_row_tile(const ProductArgs& p, std::int64_t number) {
  if (p.offsets) return GroupTiles<kRows>(p.offsets, p.matrices).at(number);
  const std::int64_t first = number * kRows;
  return {static_cast<int>(blockIdx.z), first, min(first + kRows, p.m)};
}

// Tiles that launches must make room for, whatever the rows of each group.
inline std::int64_t most_tiles(const ProductArgs& p, int rows) {
  if (p.offsets) return most_group_tiles(p.m, p.matrices, rows);
  return (p.m + rows - 1) / rows;
}

// Row `row` of x, as out counts them; null past the end of the tile.
__device__ inline const bf16* row_of_x(const ProductArgs& p, const RowTile& tile,
                                       std::int64_t row) {
  if (row >= tile.end) return nullptr;
  const std::int64_t source = p.sources ? p.sources[row] : row;
  const std::int64_t matrix = p.offsets ? 0 : tile.matrix;
  return p.x + matrix * p.x_step + source * p.x_stride;
}

// Rows of the weight that 16 sums of a lane group are of: in kSiluMul eight of the gate, then the
// same eight of up.
template <Epilogue kEpilogue>
inline constexpr int kRowsOf16 = kEpilogue == Epilogue::kSiluMul ? 8 : 16;

// Writes the sum of output (row, n); kSiluMul: with that of up.
template <Epilogue kEpilogue>
__device__ void write_sum(const ProductArgs& p, const RowTile& tile, std::int64_t row,
                          std::int64_t n, float sum, float up) {
  if (row >= tile.end || n >= p.n) return;
  const std::int64_t at = (p.offsets ? 0 : tile.matrix) * p.out_step + row * p.out_stride + n;
  if constexpr (kEpilogue == Epilogue::kF32) {
    static_cast<float*>(p.out)[at] = sum;
  } else if constexpr (kEpilogue == Epilogue::kAdd) {
    static_cast<float*>(p.out)[at] += sum;
  } else if constexpr (kEpilogue == Epilogue::kBF16) {
    static_cast<bf16*>(p.out)[at] = __float2bfloat16_rn(sum);
  } else {
    static_cast<bf16*>(p.out)[at] = __float2bfloat16_rn(
        silu_mul(as_float(__float2bfloat16_rn(sum)), as_float(__float2bfloat16_rn(up))));
  }
}

// Rows n0, n0 + 1, .. of a weight, as a tile of sums has them: in kSiluMul as kRowsOf16 says.
template <Epilogue kEpilogue>
struct WeightRows {
  WeightView w, up;
  std::int64_t n0, last;  // past the last row of the weight it is computed again, and not written

  __device__ WeightRows(const ProductArgs& p, const RowTile& tile, std::int64_t n)
      : w(p.weights[tile.matrix]),
        up(kEpilogue == Epilogue::kSiluMul ? p.up[tile.matrix] : WeightView{}),
        n0(n),
        last(p.n - 1) {}
  __device__ const WeightView& of(int i) const {
    return kEpilogue == Epilogue::kSiluMul && i / 8 % 2 == 1 ? up : w;
  }
  __device__ std::int64_t row(int i) const {
    const std::int64_t n = n0 + (kEpilogue == Epilogue::kSiluMul ? i / 16 * 8 + i % 8 : i);
    return min(n, last);
  }
};

// Writes a tile of sums that lie in shared memory, `kStride` floats apart for each row of x. By the
// kThreads threads of a block.
template <WeightFormat kFormat, Epilogue kEpilogue, int kRows, int kOut, int kStride, int kThreads>
__device__ void write_tile(const ProductArgs& p, const RowTile& tile,
                           const WeightRows<kEpilogue>& weights, const float* sums) {
  const float factor = factor_of<kFormat>(weights.w);
  const float up_factor = kEpilogue == Epilogue::kSiluMul ? factor_of<kFormat>(weights.up) : factor;
  for (int i = threadIdx.x; i < kRows * kOut; i += kThreads) {
    const int row = i / kOut, out = i % kOut;
    const int column = kEpilogue == Epilogue::kSiluMul ? out / 8 * 16 + out % 8 : out;
    const float* const sum = sums + row * kStride + column;
    const float up_sum = kEpilogue == Epilogue::kSiluMul ? sum[8] : 0.0f;
    write_sum<kEpilogue>(p, tile, tile.first + row, weights.n0 + out, *sum * factor,
                         up_sum * up_factor);
  }
}

}  // namespace glint::cuda
