// Products of many rows: a thread block multiplies kTileWeights rows of a weight with kTileRows
// rows of x, through a ring of steps in shared memory that cp.async fills ahead, weights as codes.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <type_traits>

#include "backends/cuda/linear/stream.cuh"

namespace glint::cuda {

inline constexpr int kTileRows = 64, kTileWeights = 128;
inline constexpr int kTileWarpsX = 2, kTileWarpsW = 4;  // a warp: 32 of each
inline constexpr int kTileBlock = kTileWarpsX * kTileWarpsW * kWarp;
inline constexpr int kBlocksX = kTileRows / kTileWarpsX / 8;      // of 8 rows, of a warp
inline constexpr int kBlocksW = kTileWeights / kTileWarpsW / 16;  // of 16 rows of the weight

template <WeightFormat kFormat, int kStagesOf>
struct TileShape {
  static constexpr int kWeightBytes = kTileWeights * Codes<kFormat>::kBytes;
  static constexpr int kStageBytes = kWeightBytes + kTileRows * kXBytes;
  static constexpr int kStages = kStagesOf;
  static constexpr int kSharedBytes = kStages * kStageBytes;
  static constexpr int kSumStride = kTileWeights + 4;  // floats; the sums replace the stages
  static_assert(kTileRows * kSumStride * 4 <= kSharedBytes);
};
// With as many stages as is good, and with those that every device has the memory for.
template <WeightFormat kFormat>
using DeepTile = TileShape<kFormat, kFormat == WeightFormat::kBF16 ? 3 : 4>;
template <WeightFormat kFormat>
using FlatTile = TileShape<kFormat, kFormat == WeightFormat::kBF16       ? 2
                                    : kFormat == WeightFormat::kFp8Block ? 3
                                                                         : 4>;

// As place_of_x, for the codes of a weight.
template <WeightFormat kFormat>
__device__ int place_of_codes(int row, int unit) {
  if constexpr (kFormat == WeightFormat::kNvfp4) return unit;
  return unit ^ (row & 1) << 2;
}

// Copies a step of rows: a thread always the same unit of every kRowsApart-th row.
template <int kRows, int kBytes, bool kAligned = true>
struct RowCopy {
  static constexpr int kUnits = kBytes / 16, kRowsApart = kTileBlock / kUnits,
                       kCopies = kRows / kRowsApart;
  const std::byte* rows[kCopies];

  template <class RowOf>
  __device__ explicit RowCopy(RowOf&& row_of) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      rows[i] = row_of(static_cast<int>(threadIdx.x) / kUnits + i * kRowsApart);
    }
  }
  template <class PlaceOf>
  __device__ void start(std::byte* to, int at, int size, PlaceOf&& place_of) const {
    const int unit = threadIdx.x % kUnits;
    const int byte = at + unit * 16;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int row = static_cast<int>(threadIdx.x) / kUnits + i * kRowsApart;
      const bool there = rows[i] && byte < size;
      std::byte* const here = to + row * kBytes + place_of(row, unit) * 16;
      if constexpr (kAligned) {
        copy_16(here, there ? rows[i] + byte : rows[0], there);
      } else {
        *reinterpret_cast<uint4*>(here) = there ? load_row<false>(rows[i], byte, size) : uint4{};
      }
    }
  }
};

// The scales of a warp's rows of the weight in a step.
template <WeightFormat kFormat>
struct StepScales {
  SpanScales upper[kBlocksW], lower[kBlocksW];  // fp8
  std::uint32_t of_rows[kBlocksW][2];           // nvfp4
};

// A step, of one warp.
template <WeightFormat kFormat, class Shape>
__device__ void multiply_step(float (&slice)[kBlocksW][kBlocksX][4], const std::byte* stage,
                              const StepScales<kFormat>& scales, int warp_w, int warp_x) {
  const int g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const std::byte* const x = stage + Shape::kWeightBytes;
  Codes<kFormat> codes[kBlocksW][2];
#pragma unroll
  for (int i = 0; i < kBlocksW; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_w + i * 16 + half * 8 + g;
#pragma unroll
      for (int u = 0; u < Codes<kFormat>::kVectors; ++u) {
        const int place = place_of_codes<kFormat>(row, Codes<kFormat>::unit(u, t));
        codes[i][half].v[u] =
            *reinterpret_cast<const uint4*>(stage + row * Codes<kFormat>::kBytes + place * 16);
      }
      if constexpr (kFormat == WeightFormat::kNvfp4) {
        codes[i][half].scales = scales.of_rows[i][half];
      }
    }
  }
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    float span[kBlocksW][kBlocksX][4] = {};
#pragma unroll
    for (int c = 2 * s; c < 2 * s + 2; ++c) {
      std::uint32_t pairs[kBlocksW][2][4];
#pragma unroll
      for (int i = 0; i < kBlocksW; ++i) {
        codes[i][0].pairs(c, pairs[i][0]);
        codes[i][1].pairs(c, pairs[i][1]);
      }
#pragma unroll
      for (int j = 0; j < kBlocksX; ++j) {
        const int row = warp_x + j * 8 + g;
        const int place = place_of_x<kFormat>(row, Codes<kFormat>::column(t, c) / 8);
        const uint4 own = *reinterpret_cast<const uint4*>(x + row * kXBytes + place * 16);
#pragma unroll
        for (int i = 0; i < kBlocksW; ++i) {
          multiply_add(span[i][j], pairs[i][0], pairs[i][1], own);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kBlocksW; ++i) {
#pragma unroll
      for (int j = 0; j < kBlocksX; ++j) {
        add_span<kFormat>(slice[i][j], span[i][j], scales.upper[i].of[s], scales.lower[i].of[s]);
      }
    }
  }
}

__device__ inline void add_slice(float (&total)[kBlocksW][kBlocksX][4],
                                 float (&slice)[kBlocksW][kBlocksX][4]) {
#pragma unroll
  for (int i = 0; i < kBlocksW; ++i) {
#pragma unroll
    for (int j = 0; j < kBlocksX; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) total[i][j][e] += slice[i][j][e], slice[i][j][e] = 0;
    }
  }
}

template <WeightFormat kFormat, class Shape, bool kAligned, Epilogue kEpilogue>
__device__ __forceinline__ void tile_product(const ProductArgs& p) {
  extern __shared__ __align__(128) std::byte shared[];
  constexpr int kOut = kTileWeights / 16 * kRowsOf16<kEpilogue>;  // outputs of a row of x
  const Slices slices = slices_of(p.k);
  const RowTile tile = find_row_tile<kTileRows>(p, blockIdx.x);
  if (tile.first >= tile.end) return;
  const WeightRows<kEpilogue> weights(p, tile, blockIdx.y * std::int64_t{kOut});
  const RowCopy<kTileRows, kXBytes, kAligned> copy_x(
      [&](int i) { return reinterpret_cast<const std::byte*>(row_of_x(p, tile, tile.first + i)); });
  const RowCopy<kTileWeights, Codes<kFormat>::kBytes, kAligned> copy_w(
      [&](int i) { return weights.of(i).data + weights.row(i) * Codes<kFormat>::row_bytes(p.k); });

  const int steps = (p.k + kStep - 1) / kStep;
  const auto start_copy = [&](int step) {
    if (step < steps) {
      std::byte* const stage = shared + step % Shape::kStages * Shape::kStageBytes;
      const int k0 = step * kStep;
      copy_w.start(stage, Codes<kFormat>::row_bytes(k0), Codes<kFormat>::row_bytes(p.k),
                   place_of_codes<kFormat>);
      copy_x.start(stage + Shape::kWeightBytes, 2 * k0, 2 * p.k, place_of_x<kFormat>);
    }
    __pipeline_commit();  // past the end too: the wait below counts commits
  };

  const int warp = threadIdx.x / kWarp, g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const int warp_w = warp % kTileWarpsW * (kBlocksW * 16),
            warp_x = warp / kTileWarpsW * (kBlocksX * 8);
  const auto load_scales = [&](int step) {
    StepScales<kFormat> scales = {};
    const int k0 = step * kStep;
#pragma unroll
    for (int i = 0; i < kBlocksW; ++i) {
      const int row = warp_w + i * 16;
      scales.upper[i] = load_span_scales<kFormat>(weights.w, weights.row(row), step, p.k);
      scales.lower[i] = kEpilogue == Epilogue::kSiluMul
                            ? load_span_scales<kFormat>(weights.up, weights.row(row + 8), step, p.k)
                            : scales.upper[i];
      if constexpr (kFormat == WeightFormat::kNvfp4) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int r = row + half * 8 + g;
          const std::byte* const of_row =
              weights.of(r).scale + weights.row(r) * (p.k / kNvfp4Group);
          scales.of_rows[i][half] = Codes<kFormat>::template load_scales<kAligned>(
              of_row, k0 + Codes<kFormat>::column(t, 0), p.k);
        }
      }
    }
    return scales;
  };

  float total[kBlocksW][kBlocksX][4] = {}, slice[kBlocksW][kBlocksX][4] = {};
  for (int i = 0; i < Shape::kStages - 1; ++i) start_copy(i);
  for (int step = 0; step < steps; ++step) {
    const StepScales<kFormat> scales = load_scales(step);
    __pipeline_wait_prior(Shape::kStages - 2);
    __syncthreads();  // the copies of all threads are there, and the stage before this is free
    start_copy(step + Shape::kStages - 1);
    multiply_step<kFormat, Shape>(slice, shared + step % Shape::kStages * Shape::kStageBytes,
                                  scales, warp_w, warp_x);
    if ((step + 1) % slices.steps == 0 || step + 1 == steps) add_slice(total, slice);
  }

  __syncthreads();  // the stages have been read
  float* const sums = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int i = 0; i < kBlocksW; ++i) {
#pragma unroll
    for (int j = 0; j < kBlocksX; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = warp_x + j * 8 + 2 * t + e % 2, column = warp_w + i * 16 + g + e / 2 * 8;
        sums[row * Shape::kSumStride + column] = total[i][j][e];
      }
    }
  }
  __syncthreads();
  write_tile<kFormat, kEpilogue, kTileRows, kOut, Shape::kSumStride, kTileBlock>(p, tile, weights,
                                                                                 sums);
}

// Whether code for `target` needs this one of the two: code for 8.0 runs on 8.6 and 8.9 too, which
// have less memory.
template <WeightFormat kFormat, class Shape>
constexpr bool is_tile_of(const Arch& target) {
  const bool is_deep = DeepTile<kFormat>::kSharedBytes <= target.shared_bytes;
  return std::is_same_v<Shape, DeepTile<kFormat>> ? is_deep
                                                  : !is_deep || target.capability / 10 == 8;
}

template <WeightFormat kFormat, class Shape, bool kAligned, Epilogue kEpilogue>
__global__ void __launch_bounds__(kTileBlock, 1) tile_kernel(const ProductArgs p) {
  if constexpr (is_ever_chosen(Kernel::kTile, kAligned, kArch) &&
                is_tile_of<kFormat, Shape>(kArch)) {
    tile_product<kFormat, Shape, kAligned, kEpilogue>(p);
  }
}

template <WeightFormat kFormat, class Shape, bool kAligned, Epilogue kEpilogue>
void launch_tile_as(const ProductArgs& p, const Gpu& gpu) {
  const auto kernel = tile_kernel<kFormat, Shape, kAligned, kEpilogue>;
  // A failure shows as the launch's error.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kSharedBytes);
  constexpr int kOut = kTileWeights / 16 * kRowsOf16<kEpilogue>;
  const dim3 grid(static_cast<unsigned>(most_tiles(p, kTileRows)),
                  static_cast<unsigned>((p.n + kOut - 1) / kOut),
                  static_cast<unsigned>(p.offsets ? 1 : p.matrices));
  kernel<<<grid, kTileBlock, Shape::kSharedBytes, gpu.stream>>>(p);
}

template <WeightFormat kFormat, Epilogue kEpilogue, bool kAligned>
void launch_tile(const ProductArgs& p, const Gpu& gpu) {
  if (DeepTile<kFormat>::kSharedBytes <= gpu.arch.shared_bytes) {
    return launch_tile_as<kFormat, DeepTile<kFormat>, kAligned, kEpilogue>(p, gpu);
  }
  launch_tile_as<kFormat, FlatTile<kFormat>, kAligned, kEpilogue>(p, gpu);
}

}  // namespace glint::cuda
