// Products of few rows: weights go from memory to registers, each byte once, with the loads of the
// next steps in flight while these are multiplied. A warp multiplies 16 rows of a weight with up to
// kRows rows of x, over one slice of k; the slices' sums meet in shared memory, in order: those of
// the warps of a thread block, which read 8 rows of x through L1, or those of the thread blocks of
// a cluster, each of which holds its slice of 32 rows of x in shared memory.
#pragma once

#include <algorithm>

#include "backends/cuda/barrier.cuh"
#include "backends/cuda/cluster.cuh"
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/linear/rows.cuh"

namespace glint::cuda {

inline constexpr int kStreamBlock = kStreamWarps * kWarp;
inline constexpr int kXBytes = 2 * kStep;        // of a row of x in a step
inline constexpr int kRounds = 10;               // thread blocks that a multiprocessor should get
inline constexpr std::int64_t kFewGrouped = 64;  // rows of all groups, that may wait beside others

template <bool kCluster>
inline constexpr int kStreamRows = kCluster ? 32 : 8;  // of x

// The sums of the warps: 16 of each of kRows rows of x.
template <int kRows>
using StreamSums = float[kStreamWarps][kRows][kPaddedSums];

// Where 16 bytes, number `unit` of a row of x, lie in its step: so that the eight lanes that read
// together, the quads of two rows, meet every bank once.
template <WeightFormat kFormat>
__device__ int place_of_x(int row, int unit) {
  if constexpr (kFormat == WeightFormat::kBF16) return unit ^ (row & 1) << 2;
  if constexpr (kFormat == WeightFormat::kFp8Block) return unit ^ (row & 1);
  return unit ^ (unit >> 3 & 1) ^ (row & 1) << 1;
}

// Puts `steps` steps of the tile's rows from `first` on into shared memory, zeros past k. Rows past
// the tile's stay as they are: what comes of them is not written.
template <WeightFormat kFormat, int kRows, bool kAligned>
__device__ void copy_x(const ProductArgs& p, const RowTile& tile, int first, int steps,
                       std::byte* to) {
  constexpr int kUnits = kXBytes / 16;
  const int count = static_cast<int>(tile.end - tile.first);
  // A lane for each row, so that where they lie is read at once.
  const int lane = threadIdx.x % kWarp;
  const bf16* const own = row_of_x(p, tile, tile.first + min(lane, count - 1));
  const int size = 2 * p.k, units = steps * kUnits, all = count * units;
  for (int i = threadIdx.x; i - lane < all; i += kStreamBlock) {
    const int row = min(i / units, count - 1), of_row = i - row * units;
    const auto* const x = reinterpret_cast<const std::byte*>(
        __shfl_sync(kAllLanes, reinterpret_cast<unsigned long long>(own), row));
    if (i >= all) continue;
    const int step = of_row / kUnits, unit = of_row % kUnits;
    const int byte = first * kXBytes + of_row * 16;
    std::byte* const here =
        to + (step * kRows + row) * kXBytes + place_of_x<kFormat>(row, unit) * 16;
    if constexpr (kAligned) {
      copy_16(here, byte < size ? x + byte : x, byte < size);
    } else {
      *reinterpret_cast<uint4*>(here) = load_row<false>(x, byte, size);
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// Eight elements of a row of x, zeros past k or where there is no row.
__device__ inline uint4 load_x(const bf16* x, int column, int k) {
  return x && column < k ? *reinterpret_cast<const uint4*>(x + column) : uint4{};
}

// A lane's two rows of the weight: of a group of 16, or the same of gate and up.
struct TwoRows {
  const std::byte *data[2], *scales[2];  // scales: nvfp4 only
};
template <WeightFormat kFormat, Epilogue kEpilogue>
__device__ TwoRows two_rows(const ProductArgs& p, const WeightView& w, const WeightView& up,
                            std::int64_t n0, int g) {
  TwoRows rows = {};
  const int bytes = Codes<kFormat>::row_bytes(p.k);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const bool is_up = kEpilogue == Epilogue::kSiluMul && i == 1;
    const WeightView& from = is_up ? up : w;
    // Past the last row it is computed again, and not written.
    const std::int64_t n = min(n0 + g + (is_up ? 0 : 8 * i), p.n - 1);
    rows.data[i] = from.data + n * bytes;
    if constexpr (kFormat == WeightFormat::kNvfp4) {
      rows.scales[i] = from.scale + n * (p.k / kNvfp4Group);
    }
  }
  return rows;
}

template <WeightFormat kFormat, bool kAligned>
__device__ void load_codes(Codes<kFormat>& codes, const std::byte* data, const std::byte* scales,
                           int k0, int k, int t) {
  const int size = Codes<kFormat>::row_bytes(k), at = Codes<kFormat>::row_bytes(k0);
#pragma unroll
  for (int u = 0; u < Codes<kFormat>::kVectors; ++u) {
    codes.v[u] = load_row<kAligned>(data, at + 16 * Codes<kFormat>::unit(u, t), size);
  }
  if constexpr (kFormat == WeightFormat::kNvfp4) {
    codes.scales = Codes<kFormat>::template load_scales<kAligned>(
        scales, k0 + Codes<kFormat>::column(t, 0), k);
  }
}

// A lane's weights of some steps.
template <WeightFormat kFormat, int kSteps>
struct Batch {
  Codes<kFormat> a[kSteps], b[kSteps];
  SpanScales upper[kSteps], lower[kSteps];  // of a and b
};

template <WeightFormat kFormat, int kSteps, bool kAligned, Epilogue kEpilogue>
__device__ void load_batch(Batch<kFormat, kSteps>& batch, const ProductArgs& p, const WeightView& w,
                           const WeightView& up, std::int64_t n0, int step, int end) {
  const int g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const TwoRows rows = two_rows<kFormat, kEpilogue>(p, w, up, n0, g);
  const std::int64_t block_row = min(n0, p.n - 1);
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    if (step + i >= end) break;
    const int k0 = (step + i) * kStep;
    load_codes<kFormat, kAligned>(batch.a[i], rows.data[0], rows.scales[0], k0, p.k, t);
    load_codes<kFormat, kAligned>(batch.b[i], rows.data[1], rows.scales[1], k0, p.k, t);
    batch.upper[i] = load_span_scales<kFormat>(w, block_row, step + i, p.k);
    if constexpr (kEpilogue == Epilogue::kSiluMul) {
      batch.lower[i] = load_span_scales<kFormat>(up, block_row, step + i, p.k);
    } else {
      batch.lower[i] = batch.upper[i];
    }
  }
}

// `x_at(i, c, j)`: chunk c of step i of the batch, of the lane's row of the j-th eight of x.
template <WeightFormat kFormat, int kSteps, int kBlocks, class XAt>
__device__ void multiply_batch(float (&sums)[kBlocks][4], const Batch<kFormat, kSteps>& batch,
                               int steps, XAt&& x_at) {
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    if (i >= steps) break;
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      float span[kBlocks][4] = {};
#pragma unroll
      for (int c = 2 * s; c < 2 * s + 2; ++c) {
        std::uint32_t a[4], b[4];
        batch.a[i].pairs(c, a);
        batch.b[i].pairs(c, b);
#pragma unroll
        for (int j = 0; j < kBlocks; ++j) multiply_add(span[j], a, b, x_at(i, c, j));
      }
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
        add_span<kFormat>(sums[j], span[j], batch.upper[i].of[s], batch.lower[i].of[s]);
      }
    }
  }
}

template <WeightFormat kFormat, bool kCluster, bool kAligned, Epilogue kEpilogue>
__device__ __forceinline__ void stream_product(const ProductArgs& p) {
  extern __shared__ __align__(128) std::byte shared[];
  constexpr int kRows = kStreamRows<kCluster>;
  auto& sums_of_warps = *reinterpret_cast<StreamSums<kRows>*>(shared);
  std::byte* const x = shared + sizeof(StreamSums<kRows>);
  constexpr int kOut = kRowsOf16<kEpilogue>;
  // Steps of a batch, as registers allow: of two batches in a cluster, else of one.
  constexpr int kAhead = Codes<kFormat>::kAhead, kSteps = kCluster ? (kAhead + 2) / 4 : kAhead;
  const Slices slices = slices_of(p.k);
  const int warp = threadIdx.x / kWarp, g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const int blocks = kCluster ? slices.count : 1;  // of a cluster
  const int rank = static_cast<int>(blockIdx.x % blocks);
  const int slice = kCluster ? rank : warp % slices.count;
  const int tiles = kCluster ? kStreamWarps : kStreamWarps / slices.count;  // of 16 rows, at once
  const int own_tile = kCluster ? warp : warp / slices.count;
  const bool finds_groups = p.offsets != nullptr && !p.knows_groups;
  if (finds_groups) wait_for_inputs();
  let_next_start();                     // which knows the groups too
  if (p.knows_groups) __threadfence();  // L1 may hold offsets of an earlier layer
  const RowTile tile = find_row_tile<kRows>(p, blockIdx.x / blocks);
  if (tile.first >= tile.end) {  // as for the others of its cluster
    if (!finds_groups) wait_for_inputs();
    return;
  }
  const WeightView w = p.weights[tile.matrix];
  const WeightView up = kEpilogue == Epilogue::kSiluMul ? p.up[tile.matrix] : WeightView{};

  const int all_steps = (p.k + kStep - 1) / kStep;
  const int begin = slice * slices.steps, end = min(begin + slices.steps, all_steps);
  const std::int64_t columns = std::int64_t{tiles} * kOut, apart = columns * gridDim.y;
  // Next come the columns of out from `at` on, from step `step` on.
  std::int64_t at = blockIdx.y * columns;
  int step = begin;
  Batch<kFormat, kSteps> batches[2];
  const auto load = [&](Batch<kFormat, kSteps>& batch, std::int64_t from, int first) {
    if (from >= p.n) return;
    load_batch<kFormat, kSteps, kAligned, kEpilogue>(batch, p, w, up, from + own_tile * kOut, first,
                                                     end);
  };
  load(batches[0], at, step);  // weights are no kernel's output
  if (!finds_groups) wait_for_inputs();
  const bf16* own_x = nullptr;  // the lane's row, without a cluster
  if constexpr (kCluster) {
    copy_x<kFormat, kRows, kAligned>(p, tile, begin, max(end - begin, 0), x);
    __syncthreads();
  } else {
    own_x = row_of_x(p, tile, tile.first + g);
  }
  const float factor = factor_of<kFormat>(w);
  const float up_factor = kEpilogue == Epilogue::kSiluMul ? factor_of<kFormat>(up) : factor;

  float sums[kRows / 8][4] = {};
  // Sums of a slice that is all of k are whole.
  const auto write_whole = [&] {
    const std::int64_t n = at + own_tile * kOut + g;
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const std::int64_t row = tile.first + j * 8 + 2 * t + i;
        const float sum = 0.0f + sums[j][i], lower = 0.0f + sums[j][2 + i];
        if constexpr (kEpilogue == Epilogue::kSiluMul) {
          write_sum<kEpilogue>(p, tile, row, n, sum * factor, lower * up_factor);
        } else {
          write_sum<kEpilogue>(p, tile, row, n, sum * factor, 0);
          write_sum<kEpilogue>(p, tile, row, n + 8, lower * factor, 0);
        }
        sums[j][i] = sums[j][2 + i] = 0;
      }
    }
  };
  const bool is_whole = slices.count == 1;
  const auto finish = [&] {
    if (is_whole) return write_whole();
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        sums_of_warps[warp][j * 8 + 2 * t + e % 2][g + e / 2 * 8] = sums[j][e];
        sums[j][e] = 0;
      }
    }
    kCluster ? this_cluster().sync() : __syncthreads();
    const int rows = static_cast<int>(tile.end - tile.first);
    for (int i = rank * kStreamBlock + static_cast<int>(threadIdx.x); i < tiles * rows * kOut;
         i += blocks * kStreamBlock) {
      const int column = i % kOut, row = i / kOut % rows, of_tile = i / kOut / rows;
      float parts[kStreamWarps], up_parts[kStreamWarps];
#pragma unroll
      for (int s = 0; s < kStreamWarps; ++s) {
        const float* of = &sums_of_warps[kCluster ? of_tile : of_tile * slices.count + s][row][0];
        if (s >= slices.count) break;
        if constexpr (kCluster) of = this_cluster().map_shared_rank(of, s);
        parts[s] = of[column];
        if constexpr (kEpilogue == Epilogue::kSiluMul) up_parts[s] = of[column + 8];
      }
      float sum = 0, up_sum = 0;
#pragma unroll
      for (int s = 0; s < kStreamWarps; ++s) {
        if (s >= slices.count) break;
        sum += parts[s];
        if constexpr (kEpilogue == Epilogue::kSiluMul) up_sum += up_parts[s];
      }
      write_sum<kEpilogue>(p, tile, tile.first + row, at + of_tile * kOut + column, sum * factor,
                           up_sum * up_factor);
    }
    kCluster ? this_cluster().meet() : __syncthreads();  // the sums have been read
  };
  const auto x_at = [&](int i, int c, int j) {
    const int column = Codes<kFormat>::column(t, c);
    if constexpr (kCluster) {
      const std::byte* const row = x + ((step - begin + i) * kRows + j * 8 + g) * kXBytes;
      return *reinterpret_cast<const uint4*>(row + place_of_x<kFormat>(g, column / 8) * 16);
    } else {
      return load_x(own_x, (step + i) * kStep + column, p.k);
    }
  };
  // Multiplies `now` while `then` comes; false at the end. Warps whose slice is shorter take part.
  const auto turn = [&](Batch<kFormat, kSteps>& now, Batch<kFormat, kSteps>& then) {
    const bool is_last = step + kSteps >= begin + slices.steps;
    const std::int64_t next = is_last ? at + apart : at;
    const int next_step = is_last ? begin : step + kSteps;
    if constexpr (kCluster) load(then, next, next_step);
    multiply_batch<kFormat>(sums, now, end - step, x_at);
    if constexpr (!kCluster) load(now, next, next_step);
    if (is_last) finish();
    at = next, step = next_step;
    return at < p.n;
  };
  if constexpr (kCluster) {
    while (turn(batches[0], batches[1]) && turn(batches[1], batches[0])) {
    }
  } else {
    while (turn(batches[0], batches[0])) {
    }
  }
}

template <WeightFormat kFormat, bool kCluster, bool kAligned, Epilogue kEpilogue>
__global__ void __launch_bounds__(kStreamBlock, 2) stream_kernel(const ProductArgs p) {
  constexpr Kernel kKernel = kCluster ? Kernel::kCluster32 : Kernel::kFew8;
  if constexpr (is_ever_chosen(kKernel, kAligned, kArch)) {
    stream_product<kFormat, kCluster, kAligned, kEpilogue>(p);
  }
}

template <WeightFormat kFormat, bool kCluster, bool kAligned, Epilogue kEpilogue>
void launch_stream(const ProductArgs& p, const Gpu& gpu) {
  constexpr int kRows = kStreamRows<kCluster>;
  const auto kernel = stream_kernel<kFormat, kCluster, kAligned, kEpilogue>;
  const Slices slices = slices_of(p.k);
  const int bytes = stream_bytes(kRows, kCluster ? slices.steps : 0);
  // A failure shows as the launch's error.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  const int tiles = kCluster ? kStreamWarps : kStreamWarps / slices.count;
  const auto blocks = static_cast<unsigned>(kCluster ? slices.count : 1);
  const std::int64_t columns = std::int64_t{tiles} * kRowsOf16<kEpilogue>;
  const std::int64_t matrices = p.offsets ? 1 : p.matrices;
  const std::int64_t across = most_tiles(p, kRows) * blocks * matrices;
  // Enough thread blocks to go round a few times, each with as much of n as that leaves it. Where
  // they would go round twice, and could bring their weights before they wait, half as many.
  const std::int64_t most = (p.n + columns - 1) / columns, at_once = 2 * gpu.num_sms;
  const bool goes_twice = across * most > at_once && across * most <= 2 * at_once;
  const std::int64_t wanted =
      p.knows_groups && goes_twice ? (most + 1) / 2 : kRounds * gpu.num_sms / across;
  const LaunchShape shape = {
      .grid = dim3(static_cast<unsigned>(most_tiles(p, kRows)) * blocks,
                   static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 1, most)),
                   static_cast<unsigned>(matrices)),
      .block = kStreamBlock,
      .shared = static_cast<std::size_t>(bytes),
      .cluster = blocks};
  // Groups can do nothing before they know their offsets.
  const bool many_groups = p.offsets != nullptr && p.m > kFewGrouped;
  many_groups ? launch_in_order(kernel, shape, gpu, p) : launch_dependent(kernel, shape, gpu, p);
}

}  // namespace glint::cuda
