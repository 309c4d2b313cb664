// linear, grouped_linear, per_head: one plain kernel in f32. A thread block multiplies kRows rows
// of x with kColumns rows of a weight, kDepth of k at a time, both as f32 in shared memory.
//
// Order of summation, for every output: k ascending in spans of kDepth, each summed from zero and
// then added. An output is one thread's, so it depends on its row of x and its row of the weight
// alone.
#include "backends/cuda/linear/decode.cuh"
#include "backends/cuda/linear/group_tile.cuh"
#include "backends/cuda/linear/linear.h"
#include "base/ceil_div.h"

namespace glint::cuda {
namespace {

constexpr int kRows = 32, kColumns = 64, kDepth = 32;
constexpr int kSide = 16, kBlock = kSide * kSide;  // threads: 16 along rows by 16 along columns
constexpr int kRowsEach = kRows / kSide, kColumnsEach = kColumns / kSide;

// Operands whose matrices are chosen by blockIdx.z, and rows by what the kernel says.
template <class X, class Out>
struct Product {
  const X* x;
  std::int64_t x_stride, x_step;  // of rows, and from one z to the next
  Out* out;
  std::int64_t out_stride, out_step;
  std::int64_t n, k;
  bool adds;  // to what is in `out`
};

// The rows of x and out that a thread block works on: [first, end) of out; x's may be gathered.
struct RowRange {
  std::int64_t first, end;
  const std::int32_t* sources;  // null: the same as out's

  __device__ std::int64_t source(std::int64_t row) const { return sources ? sources[row] : row; }
};

// Tiles lie k-major; the padding lets the threads of a warp store along k without bank conflicts.
struct Tiles {
  float x[kDepth][kRows + 1];
  float w[kDepth][kColumns + 1];
};

template <WeightFormat kFormat>
__device__ void load_weight_tile(Tiles& tiles, const WeightView& w, std::int64_t n0, std::int64_t n,
                                 std::int64_t k0, std::int64_t k) {
  for (int i = threadIdx.x; i < kColumns * kDepth; i += kBlock) {
    const std::int64_t row = n0 + i / kDepth, column = k0 + i % kDepth;
    tiles.w[i % kDepth][i / kDepth] =
        row < n && column < k ? weight_at<kFormat>(w, row, column, k) : 0.0f;
  }
}

__device__ void load_weight_tile(Tiles& tiles, const WeightView& w, std::int64_t n0, std::int64_t n,
                                 std::int64_t k0, std::int64_t k) {
  switch (w.format) {
    case WeightFormat::kF32:
      return load_weight_tile<WeightFormat::kF32>(tiles, w, n0, n, k0, k);
    case WeightFormat::kBF16:
      return load_weight_tile<WeightFormat::kBF16>(tiles, w, n0, n, k0, k);
    case WeightFormat::kFp8Block:
      return load_weight_tile<WeightFormat::kFp8Block>(tiles, w, n0, n, k0, k);
    case WeightFormat::kNvfp4:
      return load_weight_tile<WeightFormat::kNvfp4>(tiles, w, n0, n, k0, k);
  }
}

template <class X>
__device__ void load_x_tile(Tiles& tiles, const X* x, std::int64_t stride, const RowRange& rows,
                            std::int64_t k0, std::int64_t k) {
  for (int i = threadIdx.x; i < kRows * kDepth; i += kBlock) {
    const std::int64_t row = rows.first + i / kDepth, column = k0 + i % kDepth;
    tiles.x[i % kDepth][i / kDepth] =
        row < rows.end && column < k ? as_float(x[rows.source(row) * stride + column]) : 0.0f;
  }
}

// Thread (i, j) holds rows i, i + kSide, .. and columns j, j + kSide, .. of the tile.
__device__ void add_span(float (&sums)[kRowsEach][kColumnsEach], const Tiles& tiles) {
  const int row = threadIdx.x / kSide, column = threadIdx.x % kSide;
  float span[kRowsEach][kColumnsEach] = {};
#pragma unroll 8
  for (int d = 0; d < kDepth; ++d) {
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
      for (int j = 0; j < kColumnsEach; ++j) {
        span[i][j] = fmaf(tiles.x[d][row + i * kSide], tiles.w[d][column + j * kSide], span[i][j]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
    for (int j = 0; j < kColumnsEach; ++j) sums[i][j] += span[i][j];
  }
}

// out[rows, n0 .. n0 + kColumns) = x[rows] * w^T; by all threads of a block.
template <class X, class Out>
__device__ void multiply(const Product<X, Out>& p, const X* x, Out* out, const WeightView& w,
                         const RowRange& rows, std::int64_t n0) {
  __shared__ Tiles tiles;
  float sums[kRowsEach][kColumnsEach] = {};
  for (std::int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
    __syncthreads();  // the tiles of the span before have been read
    load_x_tile(tiles, x, p.x_stride, rows, k0, p.k);
    load_weight_tile(tiles, w, n0, p.n, k0, p.k);
    __syncthreads();
    add_span(sums, tiles);
  }
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    const std::int64_t row = rows.first + threadIdx.x / kSide + i * kSide;
#pragma unroll
    for (int j = 0; j < kColumnsEach; ++j) {
      const std::int64_t column = n0 + threadIdx.x % kSide + j * kSide;
      if (row < rows.end && column < p.n) {
        Out& to = out[row * p.out_stride + column];
        to = rounded<Out>(p.adds ? as_float(to) + sums[i][j] : sums[i][j]);
      }
    }
  }
}

// A matrix for each z.
template <class X, class Out>
__global__ void __launch_bounds__(kBlock)
    linear_kernel(Product<X, Out> p, std::int64_t num_rows, StackView weights) {
  const std::int64_t first = blockIdx.x * std::int64_t{kRows};
  const RowRange rows = {first, min(first + kRows, num_rows), nullptr};
  multiply(p, p.x + blockIdx.z * p.x_step, p.out + blockIdx.z * p.out_step, weights[blockIdx.z],
           rows, blockIdx.y * std::int64_t{kColumns});
}

template <class X, class Out>
__global__ void __launch_bounds__(kBlock)
    grouped_kernel(Product<X, Out> p, const std::int32_t* sources, const std::int32_t* offsets,
                   int num_groups, StackView weights) {
  const RowTile tile = GroupTiles<kRows>(offsets, num_groups).at(blockIdx.x);
  if (tile.first >= tile.end) return;
  multiply(p, p.x, p.out, weights[tile.matrix], {tile.first, tile.end, sources},
           blockIdx.y * std::int64_t{kColumns});
}

dim3 grid_of(std::int64_t row_tiles, std::int64_t n, std::int64_t matrices) {
  return dim3(static_cast<unsigned>(row_tiles), static_cast<unsigned>(ceil_div(n, kColumns)),
              static_cast<unsigned>(matrices));
}

}  // namespace

void launch_exact_linear(const LinearArgs& args, const Gpu& gpu) {
  if (args.out.size() == 0) return;
  const std::int64_t rows = args.x.dim(0), n = args.weight.rows;
  with_elements(args.x, [&]<class X>(X* x) {
    with_elements(args.out, [&]<class Out>(Out* out) {
      const Product<X, Out> product = {.x = x,
                                       .x_stride = args.x.stride[0],
                                       .x_step = 0,
                                       .out = out,
                                       .out_stride = args.out.stride[0],
                                       .out_step = 0,
                                       .n = n,
                                       .k = args.weight.cols,
                                       .adds = args.accumulate};
      linear_kernel<<<grid_of(ceil_div(rows, kRows), n, 1), kBlock, 0, gpu.stream>>>(
          product, rows, view_of(args.weight));
    });
  });
}

void launch_exact_grouped_linear(const GroupedLinearArgs& args, const Gpu& gpu) {
  const std::int64_t rows = args.out.dim(0), groups = args.weights.count;
  if (args.out.size() == 0 || groups == 0) return;
  const std::int64_t tiles = most_group_tiles(rows, groups, kRows);
  with_elements(args.x, [&]<class X>(X* x) {
    with_elements(args.out, [&]<class Out>(Out* out) {
      const Product<X, Out> product = {.x = x,
                                       .x_stride = args.x.stride[0],
                                       .x_step = 0,
                                       .out = out,
                                       .out_stride = args.out.dim(1),
                                       .out_step = 0,
                                       .n = args.out.dim(1),
                                       .k = args.x.dim(1),
                                       .adds = args.accumulate};
      grouped_kernel<<<grid_of(tiles, args.out.dim(1), 1), kBlock, 0, gpu.stream>>>(
          product, args.rows ? args.rows.ptr<std::int32_t>() : nullptr,
          args.offsets.ptr<std::int32_t>(), static_cast<int>(groups), view_of(args.weights));
    });
  });
}

void launch_exact_per_head(const PerHeadArgs& args, const Gpu& gpu) {
  if (args.out.size() == 0) return;
  const std::int64_t rows = args.x.dim(0);
  with_elements(args.x, [&]<class X>(X* x) {
    with_elements(args.out, [&]<class Out>(Out* out) {
      const Product<X, Out> product = {.x = x,
                                       .x_stride = args.x.stride[0],
                                       .x_step = args.x.stride[1],
                                       .out = out,
                                       .out_stride = args.out.stride[0],
                                       .out_step = args.out.stride[1],
                                       .n = args.out.dim(2),
                                       .k = args.x.dim(2),
                                       .adds = args.accumulate};
      linear_kernel<<<grid_of(ceil_div(rows, kRows), args.out.dim(2), args.x.dim(1)), kBlock, 0,
                      gpu.stream>>>(product, rows, view_of(args.weights));
    });
  });
}

}  // namespace glint::cuda
