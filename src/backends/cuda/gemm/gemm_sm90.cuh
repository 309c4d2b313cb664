// out = x * weight^T on the tensor cores, bf16 in, f32 sums.
//
// Order of summation, the same for every tile size: k ascending in spans of kDepth, never split
// otherwise. A span is one chain of mma.m16n8k16 from zero, and is then added to the sum: the
// tensor core cuts the low bits of its sums off, and over thousands of k that would add up (to 1e-5
// of the sum). Rows and columns past the end are zeros. What such an instruction adds to one sum
// does not depend on the other sums it computes, so that an output depends on its row of x and its
// row of the weight alone: not on m, nor on the tile, nor on its place in it. wgmma, which is
// faster at large m, would have to take over every m at once.
//
// A thread block multiplies kRowsX rows of x with kRowsW rows of the weight, kDepth of k at a time,
// through a ring of kStages pairs of tiles in shared memory that cp.async fills ahead.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <type_traits>

#include "backends/cuda/gemm/gemm_launch.h"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {

// Rows of a tile are kDepth * 2 = 128 bytes, eight chunks of 16. Chunk c of row r lies in place
// c ^ (r % 8), so that ldmatrix, which reads one chunk of eight rows, meets every bank once.
inline constexpr int kDepth = 64, kChunks = kDepth / kVec;

template <int kRowsX_, int kRowsW_, int kWarpsX, int kWarpsW, int kStages_>
struct GemmShape {
  static constexpr int kRowsX = kRowsX_, kRowsW = kRowsW_, kStages = kStages_;
  static constexpr int kThreads = kWarpsX * kWarpsW * 32;
  // Outputs of a warp: kBlocksX by kBlocksW blocks of 16 x 8.
  static constexpr int kWarpRowsX = kRowsX / kWarpsX, kWarpRowsW = kRowsW / kWarpsW;
  static constexpr int kBlocksX = kWarpRowsX / 16, kBlocksW = kWarpRowsW / 8;
  static constexpr int kStageElements = (kRowsX + kRowsW) * kDepth;
  static constexpr int kSharedBytes = kStages * kStageElements * int{sizeof(bf16)};
  static_assert(kWarpRowsX % 16 == 0 && kWarpRowsW % 16 == 0);
};

__device__ inline int tile_offset(int row, int chunk) {
  return row * kDepth + (chunk ^ (row % 8)) * kVec;
}

// Copies a tile of kRows rows into shared memory: a thread copies the same chunk of kCopies rows.
template <int kRows, int kThreads, bool kAligned>
class TileCopy {
 public:
  // `row_of(i)`: the elements of row i of the tile, or null for a row of zeros.
  template <class RowOf>
  __device__ explicit TileCopy(RowOf&& row_of) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) rows_[i] = row_of(first_row() + i * kRowsApart);
  }

  // Starts copying columns [k0, k0 + kDepth); from k on they are zeros.
  __device__ void start(bf16* tile, std::int64_t k0, std::int64_t k) const {
    const std::int64_t column = k0 + chunk() * kVec, left = k - column;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      bf16* to = tile + tile_offset(first_row() + i * kRowsApart, chunk());
      copy_chunk(to, rows_[i] + (rows_[i] ? column : 0), rows_[i] ? left : 0);
    }
  }

 private:
  static constexpr int kRowsApart = kThreads / kChunks, kCopies = kRows / kRowsApart;
  static_assert(kThreads % (8 * kChunks) == 0 && kRows % kRowsApart == 0);

  __device__ static int first_row() { return threadIdx.x / kChunks; }
  __device__ static int chunk() { return threadIdx.x % kChunks; }

  __device__ static void copy_chunk(bf16* to, const bf16* from, std::int64_t left) {
    if constexpr (kAligned) {  // k is a multiple of kVec: all of the chunk or nothing
      if (left > 0) {
        __pipeline_memcpy_async(to, from, 16);
      } else {
        *reinterpret_cast<uint4*>(to) = uint4{};
      }
    } else {
#pragma unroll
      for (int i = 0; i < kVec; ++i) to[i] = i < left ? from[i] : bf16(0.0f);
    }
  }

  const bf16* rows_[kCopies];
};

// Four 8x8 matrices from shared memory; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void load_matrices(std::uint32_t (&r)[4], const bf16* address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(address)))
               : "memory");
}

// sums[16 x 8] += x[16 x 16] * w[8 x 16]^T
__device__ inline void multiply_add(float (&sums)[4], const std::uint32_t (&x)[4],
                                    const std::uint32_t w0, const std::uint32_t w1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(w0), "r"(w1));
}

// One warp's share of a pair of tiles: a span of k.
template <class Shape>
__device__ void multiply_tiles(float (&sums)[Shape::kBlocksX][Shape::kBlocksW][4], const bf16* x,
                               const bf16* w) {
  const int lane = threadIdx.x % 32;
  float span[Shape::kBlocksX][Shape::kBlocksW][4] = {};
#pragma unroll
  for (int k = 0; k < kChunks; k += 2) {  // 16 columns, two chunks
    std::uint32_t xs[Shape::kBlocksX][4], ws[Shape::kBlocksW / 2][4];
#pragma unroll
    for (int i = 0; i < Shape::kBlocksX; ++i) {
      load_matrices(xs[i], x + tile_offset(i * 16 + lane % 16, k + lane / 16));
    }
#pragma unroll
    for (int j = 0; j < Shape::kBlocksW / 2; ++j) {  // two blocks of 8 rows at once
      load_matrices(ws[j], w + tile_offset(j * 16 + lane / 16 * 8 + lane % 8, k + lane / 8 % 2));
    }
#pragma unroll
    for (int i = 0; i < Shape::kBlocksX; ++i) {
#pragma unroll
      for (int j = 0; j < Shape::kBlocksW; ++j) {
        multiply_add(span[i][j], xs[i], ws[j / 2][j % 2 * 2], ws[j / 2][j % 2 * 2 + 1]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < Shape::kBlocksX; ++i) {
#pragma unroll
    for (int j = 0; j < Shape::kBlocksW; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][j][e] += span[i][j][e];
    }
  }
}

template <bool kAligned>
__device__ void store_pair(bf16* out, float a, float b, std::int64_t left) {
  if constexpr (kAligned) {
    if (left > 0) *reinterpret_cast<__nv_bfloat162*>(out) = __floats2bfloat162_rn(a, b);
  } else {
    if (left > 0) out[0] = __float2bfloat16_rn(a);
    if (left > 1) out[1] = __float2bfloat16_rn(b);
  }
}
template <bool kAligned>
__device__ void store_pair(float* out, float a, float b, std::int64_t left) {
  if constexpr (kAligned) {
    if (left > 0) *reinterpret_cast<float2*>(out) = float2{a, b};
  } else {
    if (left > 0) out[0] = a;
    if (left > 1) out[1] = b;
  }
}

__device__ inline float silu_mul_of_sums(float gate, float up) {
  return silu_mul(as_float(__float2bfloat16_rn(gate)), as_float(__float2bfloat16_rn(up)));
}

// Writes one warp's sums. `row` and `column` are the first of the warp in `out`.
template <class Shape, Epilogue kEpilogue, bool kAligned>
__device__ void store_sums(const GemmArgs& args, std::int64_t row, std::int64_t column,
                           const float (&sums)[Shape::kBlocksX][Shape::kBlocksW][4]) {
  using Out = std::conditional_t<kEpilogue == Epilogue::kF32, float, bf16>;
  // In a block of 16 x 8 a lane holds two neighbours of row lane / 4, then two of the row 8 below.
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < Shape::kBlocksX * 2; ++i) {
    const std::int64_t r = row + i * 8 + lane / 4;
    if (r >= args.m) continue;
    Out* out = static_cast<Out*>(args.out) + r * args.out_stride;
    const int half = i % 2 * 2;
#pragma unroll
    for (int j = 0; j < Shape::kBlocksW; ++j) {
      const float* sum = &sums[i / 2][j][half];
      if constexpr (kEpilogue == Epilogue::kSiluMul) {
        if (j % 2 == 1) continue;  // blocks alternate between gate and up
        const std::int64_t c = column + j / 2 * 8 + lane % 4 * 2;
        const float* up = &sums[i / 2][j + 1][half];
        store_pair<kAligned>(out + c, silu_mul_of_sums(sum[0], up[0]),
                             silu_mul_of_sums(sum[1], up[1]), args.n - c);
      } else {
        const std::int64_t c = column + j * 8 + lane % 4 * 2;
        store_pair<kAligned>(out + c, sum[0], sum[1], args.n - c);
      }
    }
  }
}

template <class Shape, Epilogue kEpilogue, bool kAligned>
__global__ void __launch_bounds__(Shape::kThreads) gemm_kernel(const GemmArgs args) {
  extern __shared__ __align__(128) bf16 shared[];
  constexpr int kWeights = kEpilogue == Epilogue::kSiluMul ? 2 : 1;
  constexpr int kColumns = Shape::kRowsW / kWeights;  // of out
  // Neighbouring thread blocks share rows of the weight, the larger operand.
  const std::int64_t first_row = std::int64_t{blockIdx.x} * Shape::kRowsX;
  const std::int64_t first_column = std::int64_t{blockIdx.y} * kColumns;

  const TileCopy<Shape::kRowsX, Shape::kThreads, kAligned> copy_x([&](int i) -> const bf16* {
    const std::int64_t r = first_row + i;
    return r < args.m ? args.x + r * args.x_stride : nullptr;
  });
  const TileCopy<Shape::kRowsW, Shape::kThreads, kAligned> copy_w([&](int i) -> const bf16* {
    // kSiluMul: 8 rows of the gate, then 8 of up, so that one lane gets both sums of an output.
    const bool is_up = kWeights == 2 && i / 8 % 2 == 1;
    const std::int64_t n = first_column + (kWeights == 2 ? i / 16 * 8 + i % 8 : i);
    return n < args.n ? (is_up ? args.up : args.weight) + n * args.k : nullptr;
  });
  const int steps = static_cast<int>((args.k + kDepth - 1) / kDepth);
  const auto start_copy = [&](int step) {
    if (step < steps) {
      bf16* stage = shared + step % Shape::kStages * Shape::kStageElements;
      const std::int64_t k0 = std::int64_t{step} * kDepth;
      copy_x.start(stage, k0, args.k);
      copy_w.start(stage + Shape::kRowsX * kDepth, k0, args.k);
    }
    __pipeline_commit();  // past the end too: the wait below counts commits
  };

  constexpr int kWarpsW = Shape::kRowsW / Shape::kWarpRowsW;
  const int warp = threadIdx.x / 32;
  const int warp_x = warp / kWarpsW * Shape::kWarpRowsX,
            warp_w = warp % kWarpsW * Shape::kWarpRowsW;
  float sums[Shape::kBlocksX][Shape::kBlocksW][4] = {};

  for (int step = 0; step < Shape::kStages - 1; ++step) start_copy(step);
  for (int step = 0; step < steps; ++step) {
    __pipeline_wait_prior(Shape::kStages - 2);
    __syncthreads();  // the copies of all threads are there, and the stage before this is free
    start_copy(step + Shape::kStages - 1);
    const bf16* stage = shared + step % Shape::kStages * Shape::kStageElements;
    multiply_tiles<Shape>(sums, stage + warp_x * kDepth, stage + (Shape::kRowsX + warp_w) * kDepth);
  }
  store_sums<Shape, kEpilogue, kAligned>(args, first_row + warp_x, first_column + warp_w / kWeights,
                                         sums);
}

template <class Shape, Epilogue kEpilogue, bool kAligned>
void launch_kernel(const GemmArgs& args, cudaStream_t stream) {
  const auto kernel = gemm_kernel<Shape, kEpilogue, kAligned>;
  constexpr int kUnaskedShared = 48 << 10;
  if constexpr (Shape::kSharedBytes > kUnaskedShared) {
    // A failure shows as the launch's error.
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kSharedBytes);
  }
  constexpr int kColumns = kEpilogue == Epilogue::kSiluMul ? Shape::kRowsW / 2 : Shape::kRowsW;
  const dim3 grid(static_cast<unsigned>((args.m + Shape::kRowsX - 1) / Shape::kRowsX),
                  static_cast<unsigned>((args.n + kColumns - 1) / kColumns));
  kernel<<<grid, Shape::kThreads, Shape::kSharedBytes, stream>>>(args);
}

template <Epilogue kEpilogue>
void launch_gemm(const GemmConfig& config, const GemmArgs& args, cudaStream_t stream) {
  using Small = GemmShape<16, 32, 1, 2, 8>;
  using Medium = GemmShape<64, 64, 2, 2, 4>;
  using Large = GemmShape<128, 128, 2, 4, 4>;
  if (!config.aligned) return launch_kernel<Medium, kEpilogue, false>(args, stream);
  switch (config.tile) {
    case GemmTile::k16x32:
      return launch_kernel<Small, kEpilogue, true>(args, stream);
    case GemmTile::k64x64:
      return launch_kernel<Medium, kEpilogue, true>(args, stream);
    case GemmTile::k128x128:
      return launch_kernel<Large, kEpilogue, true>(args, stream);
  }
}

}  // namespace glint::cuda
