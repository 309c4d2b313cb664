// Products of many rows, by the tensor cores' instruction for whole warpgroups: a thread block
// multiplies kWideWeights rows of a weight, which pass through registers from code to bf16, with 64
// or 128 rows of x in shared memory. A code is decoded once for all of these rows.
//
// Sums are those of the other kernels: the instruction adds sixteen products as mma.sync does, in
// chains of the same four.
#pragma once

#include <cstdint>

#include "backends/cuda/linear/tile.cuh"

namespace glint::cuda {

inline constexpr int kWideRows = 128, kHalfRows = 64, kWideWeights = 128;
inline constexpr int kWideBlock = 256;  // two warpgroups, of 64 rows of the weight each
inline constexpr int kHalfSums = kHalfRows / 2, kWideSums = kWideRows / 2;  // of a thread

// kSlices: of k, of a thread block.
template <WeightFormat kFormat, int kRows, int kSlices>
struct WideShape {
  static constexpr int kXBytes = kRows * 2 * kStep;  // of a step
  static constexpr int kCodeBytes = kWideWeights * Codes<kFormat>::kBytes;
  // On a multiprocessor; one alone has the registers for all rows.
  static constexpr int kBlocks = kRows == kHalfRows ? 2 : 1;
  static constexpr int kBF16Stages = kBlocks == 2 ? 2 : 3;
  static constexpr int kStages = kFormat == WeightFormat::kBF16 ? kBF16Stages : 4;  // of codes
  static constexpr int kStagesBytes = 2 * kXBytes + kStages * kCodeBytes;
  static constexpr int kSumsBytes = kRows / 2 * kWideBlock * 4;  // of a slice
  static constexpr int kSharedBytes = kStagesBytes + (kSlices - 1) * kSumsBytes;
  static_assert(kSumsBytes <= kStagesBytes);  // those of the last slice replace them
  static_assert(kBlocks * (kSharedBytes + 1024) <= 228 << 10);
};

// x of a step in shared memory, as the instruction reads it: pieces of eight rows by eight columns,
// 128 bytes each, those of eight rows together. Columns are those that multiply_add takes at once,
// number `chain` of the four of a span.
inline constexpr int kPiece = 128, kEightBytes = 2 * kStep / 16 * kPiece;
__device__ constexpr int place_of_piece(int eight, int span, int chain, int half) {
  return eight * kEightBytes + ((span * 4 + chain) * 2 + half) * kPiece;
}
// For the instruction: what lies n bytes further is n / 16 more.
__device__ inline std::uint32_t describe_x(const std::byte* x) {
  return (shared_address(x) & 0x3ffff) / 16 | kPiece / 16 << 16;
}

// sums[64 rows of the weight x 64 of x] (+)= a[64 x 16] * x[64 x 16]^T, of bf16; `a` in registers
// as mma.sync takes it, x in shared memory where describe_x() says. Asynchronous.
__device__ inline void multiply_wide(float (&d)[kHalfSums], const std::uint32_t (&a)[4],
                                     std::uint32_t x, bool adds) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .b64 where;\nsetp.ne.b32 p, %38, 0;\nmov.b64 where, {%36, %37};\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, where, p, 1, 1, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(x), "n"(kEightBytes / 16),
        "r"(static_cast<int>(adds)));
}
__device__ inline void begin_multiplying() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void end_multiplying() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Sums of all groups but the last kPending.
template <int kPending>
__device__ void wait_for_sums(float (&d)[kHalfSums]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#pragma unroll
  for (int i = 0; i < kHalfSums; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// A step of x on its way: a lane has four chunks of one of eight rows, of one or two such eights.
template <WeightFormat kFormat, int kRows>
struct WideX {
  static constexpr int kOwn = kRows / (kWideBlock / 4);
  const bf16* rows[kOwn];
  uint4 v[kOwn][kChunks];

  __device__ WideX(const ProductArgs& p, const RowTile& tile) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) rows[i] = row_of_x(p, tile, tile.first + row_of(i));
  }
  __device__ static int eight(int i) { return static_cast<int>(threadIdx.x) / kWarp + 8 * i; }
  __device__ static int row_of(int i) {
    return eight(i) * 8 + static_cast<int>(threadIdx.x) % kWarp / 4;
  }
  __device__ void load(int k0, int k) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        v[i][c] = load_x(rows[i], k0 + Codes<kFormat>::column(threadIdx.x % 4, c), k);
      }
    }
  }
  __device__ void store(std::byte* to) const {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const std::uint32_t pairs[4] = {v[i][c].x, v[i][c].y, v[i][c].z, v[i][c].w};
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
          const int place = place_of_piece(eight(i), c / 2, c % 2 * 2 + pair / 2, pair % 2);
          *reinterpret_cast<std::uint32_t*>(to + place + 4 * lane) = pairs[pair];
        }
      }
    }
    show_writes();
  }
};

// The two chains of a chunk, of 16 rows: the upper and the lower eight's codes.
template <WeightFormat kFormat>
__device__ void decode_chunk(std::uint32_t (*a)[4], const Codes<kFormat> (&halves)[2], int chunk) {
  std::uint32_t upper[4], lower[4];
  halves[0].pairs(chunk, upper);
  halves[1].pairs(chunk, lower);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    a[i][0] = upper[2 * i], a[i][1] = lower[2 * i];
    a[i][2] = upper[2 * i + 1], a[i][3] = lower[2 * i + 1];
  }
}
// The chains of a span of a warp's 16 rows of the weight, from their codes in shared memory.
template <WeightFormat kFormat>
__device__ void decode_span(std::uint32_t (&a)[4][4], const std::byte* codes, int row, int span,
                            const std::uint32_t (&scales)[2]) {
  const int t = threadIdx.x % 4;
  Codes<kFormat> halves[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + half * 8;
#pragma unroll
    for (int u = 0; u < Codes<kFormat>::kVectors; ++u) {
      const int place = place_of_codes<kFormat>(r, Codes<kFormat>::unit(u, t));
      halves[half].v[u] =
          *reinterpret_cast<const uint4*>(codes + r * Codes<kFormat>::kBytes + place * 16);
    }
    if constexpr (kFormat == WeightFormat::kNvfp4) halves[half].scales = scales[half];
  }
#pragma unroll
  for (int c = 0; c < 2; ++c) decode_chunk(a + 2 * c, halves, 2 * span + c);
}

// Starts the sums of a span, with 64 rows of x or twice as many.
template <int kHalves>
__device__ void start_span(float (&span)[kHalves][kHalfSums], const std::uint32_t (&a)[4][4],
                           std::uint32_t x, int number) {
  begin_multiplying();
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
#pragma unroll
    for (int chain = 0; chain < 4; ++chain) {
      multiply_wide(span[half], a[chain],
                    x + place_of_piece(half * kHalfRows / 8, number, chain, 0) / 16, chain != 0);
    }
  }
  end_multiplying();
}

// Waits for a span's sums and adds them to the slice's.
template <WeightFormat kFormat, int kHalves>
__device__ void add_wide_span(float (&slice)[kHalves * kHalfSums],
                              float (&span)[kHalves][kHalfSums], float upper, float lower) {
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    wait_for_sums<0>(span[half]);
#pragma unroll
    for (int i = 0; i < kHalfSums; ++i) {
      float& sum = slice[half * kHalfSums + i];
      if constexpr (kFormat == WeightFormat::kFp8Block) {
        sum = fmaf(span[half][i], i % 4 < 2 ? upper : lower, sum);
      } else {
        sum += span[half][i];
      }
    }
  }
}

// Adds up what the blocks of a cluster left of `count` slices, kSlices each, and writes it: each
// block an equal share of every thread's sums, which totals_of(slice of the block) has.
template <int kSlices, int kSums, Epilogue kEpilogue, class TotalsOf>
__device__ void add_slices(const ProductArgs& p, const RowTile& tile, std::int64_t n, int count,
                           TotalsOf&& totals_of, float factor, float up_factor) {
  const auto cluster = this_cluster();
  cluster.sync();
  const int t = threadIdx.x % 4, rank = static_cast<int>(cluster.block_rank());
  const int each = kSums / 4 / static_cast<int>(cluster.num_blocks());
  for (int j = rank * each; j < (rank + 1) * each; ++j) {
    float sums[4] = {};
    for (int s = 0; s < count; ++s) {
      const float* const theirs = cluster.map_shared_rank(totals_of(s % kSlices), s / kSlices);
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[e] += theirs[(4 * j + e) * kWideBlock];
    }
    const std::int64_t row = tile.first + 8 * j + 2 * t;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (kEpilogue == Epilogue::kSiluMul) {
        write_sum<kEpilogue>(p, tile, row + i, n, sums[i] * factor, sums[2 + i] * up_factor);
      } else {
        write_sum<kEpilogue>(p, tile, row + i, n, sums[i] * factor, 0);
        write_sum<kEpilogue>(p, tile, row + i, n + 8, sums[2 + i] * factor, 0);
      }
    }
  }
  cluster.meet();  // nobody's sums go before all have read them
}

// The blocks of a cluster have kSlices slices of k each, one after the other, of one tile.
template <WeightFormat kFormat, int kRows, int kSlices, Epilogue kEpilogue>
__device__ __forceinline__ void wide_product(const ProductArgs& p) {
  using Shape = WideShape<kFormat, kRows, kSlices>;
  constexpr int kHalves = kRows / kHalfRows, kSums = kHalves * kHalfSums;
  extern __shared__ __align__(128) std::byte shared[];
  std::byte* const codes = shared + 2 * Shape::kXBytes;
  constexpr int kOut = kWideWeights / 16 * kRowsOf16<kEpilogue>;  // outputs of a row of x
  const Slices slices = slices_of(p.k);
  const int blocks = (slices.count + kSlices - 1) / kSlices;  // of a cluster
  const RowTile tile = find_row_tile<kRows>(p, blockIdx.x / blocks);
  if (tile.first >= tile.end) return;
  const WeightRows<kEpilogue> weights(p, tile, std::int64_t{blockIdx.y} * kOut);
  const RowCopy<kWideWeights, Codes<kFormat>::kBytes> copy_w(
      [&](int i) { return weights.of(i).data + weights.row(i) * Codes<kFormat>::row_bytes(p.k); });
  const int steps = (p.k + kStep - 1) / kStep;
  const int begin = static_cast<int>(blockIdx.x) % blocks * kSlices * slices.steps;
  const int end = min(begin + kSlices * slices.steps, steps);
  const auto start_copy = [&](int step) {
    if (step < end) {
      copy_w.start(codes + step % Shape::kStages * Shape::kCodeBytes,
                   Codes<kFormat>::row_bytes(step * kStep), Codes<kFormat>::row_bytes(p.k),
                   place_of_codes<kFormat>);
    }
    __pipeline_commit();  // past the end too: the wait below counts commits
  };

  const int g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const int first_row = threadIdx.x / kWarp * 16, row = first_row + g;
  WideX<kFormat, kRows> x(p, tile);
  x.load(begin * kStep, p.k);
  for (int i = 0; i < Shape::kStages - 1; ++i) start_copy(begin + i);
  x.store(shared + begin % 2 * Shape::kXBytes);
  // A thread's sums of a slice.
  const auto totals_of = [&](int i) {
    std::byte* const sums =
        i + 1 < kSlices ? shared + Shape::kStagesBytes + i * Shape::kSumsBytes : shared;
    return reinterpret_cast<float*>(sums) + threadIdx.x;
  };
  float span[kHalves][kHalfSums] = {};
  int step = begin;
#pragma unroll 1
  for (int i = 0; i < kSlices; ++i) {
    const int slice_end = min(begin + (i + 1) * slices.steps, end);
    float slice[kSums] = {};
    for (; step < slice_end; ++step) {
      __pipeline_wait_prior(Shape::kStages - 2);
      __syncthreads();  // codes and x of all threads are there, and those of the step before free
      start_copy(step + Shape::kStages - 1);
      const std::byte* const own = codes + step % Shape::kStages * Shape::kCodeBytes;
      const std::uint32_t own_x = describe_x(shared + step % 2 * Shape::kXBytes);
      if (step + 1 < end) x.load((step + 1) * kStep, p.k);
      const SpanScales upper =
          load_span_scales<kFormat>(weights.w, weights.row(first_row), step, p.k);
      const SpanScales lower =
          kEpilogue == Epilogue::kSiluMul
              ? load_span_scales<kFormat>(weights.up, weights.row(first_row + 8), step, p.k)
              : upper;
      std::uint32_t scales[2] = {};
      if constexpr (kFormat == WeightFormat::kNvfp4) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int r = row + half * 8;
          const std::byte* const of_row =
              weights.of(r).scale + weights.row(r) * (p.k / kNvfp4Group);
          scales[half] = Codes<kFormat>::template load_scales<true>(
              of_row, step * kStep + Codes<kFormat>::column(t, 0), p.k);
        }
      }
      std::uint32_t a[4][4], b[4][4];
      decode_span<kFormat>(a, own, row, 0, scales);
      start_span(span, a, own_x, 0);
      decode_span<kFormat>(b, own, row, 1, scales);
      add_wide_span<kFormat>(slice, span, upper.of[0], lower.of[0]);
      start_span(span, b, own_x, 1);
      if (step + 1 < end) x.store(shared + (step + 1) % 2 * Shape::kXBytes);
      add_wide_span<kFormat>(slice, span, upper.of[1], lower.of[1]);
    }
    if (i + 1 == kSlices) {
      let_next_start();
      __syncthreads();  // codes and x have been read
    }
    // Zeros of a slice past the end.
    float* const totals = totals_of(i);
#pragma unroll
    for (int j = 0; j < kSums; ++j) totals[j * kWideBlock] = 0.0f + slice[j];
  }

  const float factor = factor_of<kFormat>(weights.w);
  const float up_factor = kEpilogue == Epilogue::kSiluMul ? factor_of<kFormat>(weights.up) : factor;
  const std::int64_t n = weights.n0 + first_row / 16 * kRowsOf16<kEpilogue> + g;
  add_slices<kSlices, kSums, kEpilogue>(p, tile, n, slices.count, totals_of, factor, up_factor);
}

template <WeightFormat kFormat, int kRows, int kSlices, Epilogue kEpilogue>
__global__ void __launch_bounds__(kWideBlock, WideShape<kFormat, kRows, kSlices>::kBlocks)
    wide_kernel(const ProductArgs p) {
  constexpr Kernel kKernel = kRows == kHalfRows ? Kernel::kHalfWide
                             : kSlices == 1     ? Kernel::kWide
                                                : Kernel::kWidePairs;
  if constexpr (is_ever_chosen(kKernel, true, kArch)) {
    wide_product<kFormat, kRows, kSlices, kEpilogue>(p);
  }
}

template <WeightFormat kFormat, int kRows, int kSlices, Epilogue kEpilogue>
void launch_wide(const ProductArgs& p, const Gpu& gpu) {
  using Shape = WideShape<kFormat, kRows, kSlices>;
  const auto kernel = wide_kernel<kFormat, kRows, kSlices, kEpilogue>;
  // A failure shows as the launch's error.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kSharedBytes);
  constexpr int kOut = kWideWeights / 16 * kRowsOf16<kEpilogue>;
  const auto blocks = static_cast<unsigned>((slices_of(p.k).count + kSlices - 1) / kSlices);
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(most_tiles(p, kRows)) * blocks,
                                          static_cast<unsigned>((p.n + kOut - 1) / kOut),
                                          static_cast<unsigned>(p.offsets ? 1 : p.matrices)),
                             .block = kWideBlock,
                             .shared = Shape::kSharedBytes,
                             .cluster = blocks};
  launch_in_order(kernel, shape, gpu, p);
}

}  // namespace glint::cuda
