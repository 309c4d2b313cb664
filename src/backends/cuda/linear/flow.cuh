// Products of many rows, as wide.cuh has them, by thread blocks that take tile after tile: half of
// their warps bring codes and rows of x, the others multiply. What comes next is on its way while
// sums are added and written.
//
// Sums are those of wide.cuh, instruction by instruction.
#pragma once

#include "backends/cuda/barrier.cuh"
#include "backends/cuda/linear/wide.cuh"

namespace glint::cuda {

inline constexpr int kGroup = 128;               // threads of a warpgroup
inline constexpr int kBringing = 2 * kGroup;     // threads that bring: the first
inline constexpr int kMultiplying = 2 * kGroup;  // the others, 64 rows of the weight a warpgroup
inline constexpr int kFlowBlock = kBringing + kMultiplying;
inline constexpr int kRowsTogether = 16;  // row tiles whose blocks run side by side
// Registers of a thread: all 64 K of a multiprocessor.
inline constexpr int kBringingRegisters = 56, kMultiplyingRegisters = 200;
static_assert(kBringing * kBringingRegisters + kMultiplying * kMultiplyingRegisters == 65536);

template <WeightFormat kFormat>
struct FlowShape {
  static constexpr int kXBytes = kWideRows * 2 * kStep;  // of a step
  static constexpr int kCodeBytes = kWideWeights * Codes<kFormat>::kBytes;
  static constexpr int kStageBytes = kXBytes + kCodeBytes;
  static constexpr int kStages = kFormat == WeightFormat::kBF16       ? 2
                                 : kFormat == WeightFormat::kFp8Block ? 3
                                                                      : 4;
  static constexpr int kTotalBytes = kWideSums * kGroup * 4;  // of a warpgroup
  static constexpr int kBarriers = kStages * kStageBytes + 2 * kTotalBytes;
  static constexpr int kSharedBytes = kBarriers + 2 * kStages * 8;
  static_assert(kSharedBytes <= 227 << 10);
};

// The threads of warpgroup `group` alone meet.
__device__ inline void sync_group(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kGroup) : "memory");
}

// All tiles of a product, numbered through so that those of neighbouring numbers share rows of x
// and of the weight in the L2 cache.
class FlowTiles {
 public:
  struct Work {
    RowTile tile;
    int column;  // of tiles of the weight
  };
  __device__ FlowTiles(const ProductArgs& p, int columns) : p_(p), columns_(columns) {
    if (p.offsets) {
      groups_ = GroupTiles<kWideRows>(p.offsets, p.matrices);
      rows_ = groups_.count();
      count_ = rows_ * columns;
    } else {
      rows_ = static_cast<int>((p.m + kWideRows - 1) / kWideRows);
      count_ = rows_ * columns * p.matrices;
    }
  }
  __device__ int count() const { return count_; }
  __device__ Work at(int number) const {
    const int all = rows_ * columns_;
    const int matrix = p_.offsets ? 0 : number / all;
    const int in_matrix = number - matrix * all;
    const int band = in_matrix / (kRowsTogether * columns_);
    const int in_band = in_matrix - band * kRowsTogether * columns_;
    const int height = min(kRowsTogether, rows_ - band * kRowsTogether);
    const int column = in_band / height, row = band * kRowsTogether + in_band - column * height;
    if (p_.offsets) return {groups_.at(row), column};
    const std::int64_t first = std::int64_t{row} * kWideRows;
    return {{matrix, first, min(first + kWideRows, p_.m)}, column};
  }

 private:
  const ProductArgs& p_;
  GroupTiles<kWideRows> groups_;
  int columns_, rows_, count_;
};

template <WeightFormat kFormat, Epilogue kEpilogue>
struct Flow {
  using Shape = FlowShape<kFormat>;
  using Place = RingPlace<Shape::kStages>;
  static constexpr int kOut = kWideWeights / 16 * kRowsOf16<kEpilogue>;  // of a row of x
  static constexpr int kGroupOut = kOut / 2;                             // of a warpgroup
  static constexpr bool kIsRounded =
      kEpilogue == Epilogue::kBF16 || kEpilogue == Epilogue::kSiluMul;

  const ProductArgs& p;
  std::byte* shared;
  std::uint64_t *full, *empty;  // of each stage
  int steps;

  __device__ Flow(const ProductArgs& product, std::byte* memory)
      : p(product),
        shared(memory),
        full(reinterpret_cast<std::uint64_t*>(memory + Shape::kBarriers)),
        empty(full + Shape::kStages),
        steps((product.k + kStep - 1) / kStep) {}

  __device__ std::byte* x_of(int stage) const { return shared + stage * Shape::kStageBytes; }
  __device__ std::byte* codes_of(int stage) const { return x_of(stage) + Shape::kXBytes; }

  // By the first half of the threads.
  __device__ void bring(const FlowTiles& tiles) const {
    using WeightCopy = RowCopy<kWideWeights, Codes<kFormat>::kBytes>;
    const int count = tiles.count();
    Place place;
    for (int number = static_cast<int>(blockIdx.x); number < count;
         number += static_cast<int>(gridDim.x)) {
      const FlowTiles::Work work = tiles.at(number);
      const WeightRows<kEpilogue> weights(p, work.tile, std::int64_t{work.column} * kOut);
      const WeightCopy copy_w([&](int i) {
        return weights.of(i).data + weights.row(i) * Codes<kFormat>::row_bytes(p.k);
      });
      WideX<kFormat, kWideRows> x(p, work.tile);
      x.load(0, p.k);
      for (int step = 0; step < steps; ++step) {
        wait_at(empty + place.stage, place.parity ^ 1);
        copy_w.start(codes_of(place.stage), Codes<kFormat>::row_bytes(step * kStep),
                     Codes<kFormat>::row_bytes(p.k), place_of_codes<kFormat>);
        arrive_after_copies(full + place.stage);
        x.store(x_of(place.stage));
        arrive(full + place.stage);
        if (step + 1 < steps) x.load((step + 1) * kStep, p.k);
        place.advance();
      }
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
  }

  // The factors of a step's weights.
  struct Scales {
    SpanScales upper, lower;   // fp8
    std::uint32_t of_rows[2];  // nvfp4
  };
  __device__ Scales load_scales(const WeightRows<kEpilogue>& weights, int first_row,
                                int step) const {
    Scales scales = {};
    scales.upper = load_span_scales<kFormat>(weights.w, weights.row(first_row), step, p.k);
    scales.lower =
        kEpilogue == Epilogue::kSiluMul
            ? load_span_scales<kFormat>(weights.up, weights.row(first_row + 8), step, p.k)
            : scales.upper;
    if constexpr (kFormat == WeightFormat::kNvfp4) {
      const int g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = first_row + g + half * 8;
        const std::byte* const of_row = weights.of(r).scale + weights.row(r) * (p.k / kNvfp4Group);
        scales.of_rows[half] = Codes<kFormat>::template load_scales<true>(
            of_row, step * kStep + Codes<kFormat>::column(t, 0), p.k);
      }
    }
    return scales;
  }

  // By the other half.
  __device__ void multiply(const FlowTiles& tiles) const {
    const int thread = static_cast<int>(threadIdx.x) - kBringing;
    const int group = thread / kGroup, own = thread % kGroup;
    const int first_row = thread / kWarp * 16, row = first_row + thread % kWarp / 4;
    std::byte* const own_memory =
        shared + Shape::kStages * Shape::kStageBytes + group * Shape::kTotalBytes;
    float4* const totals = reinterpret_cast<float4*>(own_memory) + own;  // four sums each
    const Slices slices = slices_of(p.k);
    const int count = tiles.count();
    Place place;
    float span[2][kHalfSums] = {};
    for (int number = static_cast<int>(blockIdx.x); number < count;
         number += static_cast<int>(gridDim.x)) {
      const FlowTiles::Work work = tiles.at(number);
      const WeightRows<kEpilogue> weights(p, work.tile, std::int64_t{work.column} * kOut);
      Scales scales = load_scales(weights, first_row, 0);
      float slice[kWideSums] = {};
      std::uint32_t a[4][4], b[4][4];
      bool is_first = true;
      int left = slices.steps;  // of the slice
      wait_at(full + place.stage, place.parity);
      decode_span<kFormat>(a, codes_of(place.stage), row, 0, scales.of_rows);
      for (int step = 0; step < steps; ++step) {
        const std::uint32_t x = describe_x(x_of(place.stage));
        start_span(span, a, x, 0);
        decode_span<kFormat>(b, codes_of(place.stage), row, 1, scales.of_rows);
        const Scales now = scales;
        if (step + 1 < steps) scales = load_scales(weights, first_row, step + 1);
        add_wide_span<kFormat>(slice, span, now.upper.of[0], now.lower.of[0]);
        start_span(span, b, x, 1);
        Place next = place;
        next.advance();
        if (step + 1 < steps) {
          wait_at(full + next.stage, next.parity);
          decode_span<kFormat>(a, codes_of(next.stage), row, 0, scales.of_rows);
        }
        add_wide_span<kFormat>(slice, span, now.upper.of[1], now.lower.of[1]);
        __syncwarp();
        if (thread % kWarp == 0) arrive(empty + place.stage);  // codes and x have been read
        place = next;
        if (--left > 0 || step + 1 == steps) continue;
        add_totals(slice, totals, is_first);
#pragma unroll
        for (int i = 0; i < kWideSums; i += 4) {
          totals[i / 4 * kGroup] = {slice[i], slice[i + 1], slice[i + 2], slice[i + 3]};
          slice[i] = slice[i + 1] = slice[i + 2] = slice[i + 3] = 0;
        }
        is_first = false, left = slices.steps;
      }
      add_totals(slice, totals, is_first);
      write(work.tile, weights, slice, group, own_memory);
    }
  }

  // A slice's sums, added to those of the slices before.
  __device__ static void add_totals(float (&slice)[kWideSums], const float4* totals,
                                    bool is_first) {
#pragma unroll
    for (int i = 0; i < kWideSums; i += 4) {
      const float4 before = is_first ? float4{} : totals[i / 4 * kGroup];
      slice[i] = before.x + slice[i], slice[i + 1] = before.y + slice[i + 1];
      slice[i + 2] = before.z + slice[i + 2], slice[i + 3] = before.w + slice[i + 3];
    }
  }

  // The sums of a warpgroup: 64 rows of the weight by all rows of x.
  __device__ void write(const RowTile& tile, const WeightRows<kEpilogue>& weights,
                        const float (&sums)[kWideSums], int group, std::byte* memory) const {
    const int own = threadIdx.x % kGroup, warp = own / kWarp, lane = own % kWarp;
    const int g = lane / 4, t = lane % 4;
    const float factor = factor_of<kFormat>(weights.w);
    const float up_factor =
        kEpilogue == Epilogue::kSiluMul ? factor_of<kFormat>(weights.up) : factor;
    const std::int64_t n0 = weights.n0 + group * kGroupOut;
    if constexpr (!kIsRounded) {
#pragma unroll
      for (int i = 0; i < kWideSums; ++i) {
        write_sum<kEpilogue>(p, tile, tile.first + i / 4 * 8 + 2 * t + i % 2,
                             n0 + warp * 16 + i % 4 / 2 * 8 + g, sums[i] * factor, 0);
      }
    } else {
      constexpr int kRowBytes = kGroupOut * 2 + 16;  // padded against bank conflicts
      static_assert(kWideRows * kRowBytes <= Shape::kTotalBytes);
      sync_group(group);  // totals have been read
      // Blocks of eight outputs by eight rows, four at once; turned, so that outputs of a row are
      // side by side.
      constexpr int kEach = kEpilogue == Epilogue::kSiluMul ? 4 : 2;  // eights of rows
#pragma unroll
      for (int j = 0; j < kWideRows / 8; j += kEach) {
        std::uint32_t r[4];
#pragma unroll
        for (int m = 0; m < 4; ++m) {
          if constexpr (kEpilogue == Epilogue::kSiluMul) {
            const float* const s = sums + 4 * (j + m);
            float of[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              of[e] = silu_mul(as_float(__float2bfloat16_rn(s[e] * factor)),
                               as_float(__float2bfloat16_rn(s[2 + e] * up_factor)));
            }
            r[m] = pair_of(of[0], of[1]);
          } else {
            const float* const s = sums + 4 * (j + m / 2) + m % 2 * 2;
            r[m] = pair_of(s[0] * factor, s[1] * factor);
          }
        }
        const int block = lane / 8;
        const int at_row = (j + (kEach == 4 ? block : block / 2)) * 8 + lane % 8;
        const int at_out = kEach == 4 ? warp * 8 : warp * 16 + block % 2 * 8;
        const std::uint32_t to = shared_address(memory + at_row * kRowBytes + at_out * 2);
        asm volatile(
            "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
            "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
            : "memory");
      }
      sync_group(group);
      copy_out<kRowBytes>(tile, n0, own, memory);
      sync_group(group);  // rounded sums have been read
    }
  }

  __device__ static std::uint32_t pair_of(float first, float second) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }

  template <int kRowBytes>
  __device__ void copy_out(const RowTile& tile, std::int64_t n0, int own,
                           const std::byte* memory) const {
    constexpr int kUnits = kGroupOut / 8;
    bf16* const out = static_cast<bf16*>(p.out) + (p.offsets ? 0 : tile.matrix) * p.out_step + n0;
    const bool aligned = reinterpret_cast<std::uintptr_t>(out) % 16 == 0 && p.out_stride % 8 == 0;
    const int unit = own % kUnits, rows = static_cast<int>(tile.end - tile.first);
    const int columns = static_cast<int>(min(p.n - n0 - unit * 8, std::int64_t{8}));
    if (columns <= 0) return;
    for (int row = own / kUnits; row < rows; row += kGroup / kUnits) {
      const std::byte* const from = memory + row * kRowBytes + unit * 16;
      bf16* const to = out + (tile.first + row) * p.out_stride + unit * 8;
      if (aligned && columns == 8) {
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
      } else {
        for (int i = 0; i < columns; ++i) to[i] = reinterpret_cast<const bf16*>(from)[i];
      }
    }
  }
};

template <WeightFormat kFormat, Epilogue kEpilogue>
__global__ void __launch_bounds__(kFlowBlock, 1)
    flow_kernel(const __grid_constant__ ProductArgs p) {
  if constexpr (is_ever_chosen(Kernel::kFlow, true, kArch)) {
    extern __shared__ __align__(128) std::byte shared[];
    using Product = Flow<kFormat, kEpilogue>;
    const Product product(p, shared);
    if (threadIdx.x == 0) {
      for (int i = 0; i < Product::Shape::kStages; ++i) {
        start_barrier(product.full + i, 2 * kBringing);  // of x, and of codes
        start_barrier(product.empty + i, kMultiplying / kWarp);
      }
      show_barriers();
    }
    __syncthreads();
    const FlowTiles tiles(p, static_cast<int>((p.n + Product::kOut - 1) / Product::kOut));
    if (threadIdx.x < kBringing) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kBringingRegisters));
      product.bring(tiles);
    } else {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMultiplyingRegisters));
      product.multiply(tiles);
    }
  }
}

template <WeightFormat kFormat, Epilogue kEpilogue>
void launch_flow(const ProductArgs& p, const Gpu& gpu) {
  using Product = Flow<kFormat, kEpilogue>;
  const auto kernel = flow_kernel<kFormat, kEpilogue>;
  constexpr int kBytes = Product::Shape::kSharedBytes;
  // A failure shows as the launch's error.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  const std::int64_t tiles = most_tiles(p, kWideRows) * (p.offsets ? 1 : p.matrices) *
                             ((p.n + Product::kOut - 1) / Product::kOut);
  const LaunchShape shape = {
      .grid = dim3(static_cast<unsigned>(std::min<std::int64_t>(tiles, gpu.num_sms))),
      .block = kFlowBlock,
      .shared = kBytes};
  launch_in_order(kernel, shape, gpu, p);
}

}  // namespace glint::cuda
