// A thread block computes 128 x 128 sums by m16n8k16, 32 of k at a time, which lie in shared memory
// as they do in the matrices: the tensor cores' operands are turned as they are read. While one
// step is multiplied the next one is on its way, in registers.
#include "backends/cuda/backward/back_tile.cuh"
#include "backends/cuda/linear/codes.cuh"
#include "backends/cuda/load_matrices.cuh"

namespace glint::cuda {
namespace {

constexpr int kRows = 128, kColumns = 128, kDepth = 32;
constexpr int kBlock = 256, kWarpsN = 4;
constexpr int kBlocksM = 4, kBlocksN = 4;  // of a warp: 16 rows each, 8 columns each
// bf16 of a row in shared memory: the padding keeps eight rows in different banks.
constexpr int kAlongK = kDepth + 8, kAlongMN = kRows + 8;
constexpr int kVectors = kRows * kDepth / kVec / kBlock;  // of each operand, of a thread

template <BackProductOf kOf>
struct Tiles {
  static constexpr bool kByInput = kOf == BackProductOf::kInput;
  bf16 g[kByInput ? kRows * kAlongK : kDepth * kAlongMN];
  bf16 b[kDepth * kAlongMN];
};

// A step on its way.
struct Staged {
  float g[kVectors][kVec];
  Pack<bf16> b[kVectors];
};

template <BackProductOf kOf>
__device__ void load_step(Staged& s, const BackProduct& p, const BackTile& t, std::int64_t k0) {
  constexpr int kAcross = kOf == BackProductOf::kInput ? kDepth / kVec : kRows / kVec;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int at = threadIdx.x + i * kBlock, row = at / kAcross, column = at % kAcross * kVec;
    if constexpr (kOf == BackProductOf::kInput) {
      load_g<kOf>(s.g[i], p, t, t.m0 + row, k0 + column);
    } else {
      load_g<kOf>(s.g[i], p, t, t.m0 + column, k0 + row);
    }
    const int k = at / (kColumns / kVec), n = at % (kColumns / kVec) * kVec;
    const bf16* const b = row_of_b<kOf, bf16>(p, t, k0 + k);
    s.b[i] = load_pack<false>(b + t.n0 + n, b ? p.n - t.n0 - n : 0);
  }
}

template <BackProductOf kOf>
__device__ void store_step(const Staged& s, Tiles<kOf>& tiles) {
  constexpr bool kByInput = kOf == BackProductOf::kInput;
  constexpr int kAcross = kByInput ? kDepth / kVec : kRows / kVec;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int at = threadIdx.x + i * kBlock, row = at / kAcross, column = at % kAcross * kVec;
    store(tiles.g + row * (kByInput ? kAlongK : kAlongMN) + column, s.g[i], kVec);
    const int k = at / (kColumns / kVec), n = at % (kColumns / kVec) * kVec;
    *reinterpret_cast<Pack<bf16>*>(tiles.b + k * kAlongMN + n) = s.b[i];
  }
}

template <BackProductOf kOf>
__device__ void multiply_step(float (&sums)[kBlocksM][kBlocksN][4], const Tiles<kOf>& tiles, int m,
                              int n) {
  const int lane = threadIdx.x % kWarp, row = lane % 8, matrix = lane / 8;
#pragma unroll
  for (int k = 0; k < kDepth; k += 16) {
    std::uint32_t a[kBlocksM][4];
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
      if constexpr (kOf == BackProductOf::kInput) {
        load_matrices<false>(
            a[i], tiles.g + (m + i * 16 + row + matrix % 2 * 8) * kAlongK + k + matrix / 2 * 8);
      } else {
        load_matrices<true>(
            a[i], tiles.g + (k + row + matrix / 2 * 8) * kAlongMN + m + i * 16 + matrix % 2 * 8);
      }
    }
#pragma unroll
    for (int j = 0; j < kBlocksN; j += 2) {
      std::uint32_t b[4];
      load_matrices<true>(
          b, tiles.b + (k + row + matrix % 2 * 8) * kAlongMN + n + j * 8 + matrix / 2 * 8);
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i) {
        multiply_16(sums[i][j], a[i][0], a[i][1], a[i][2], a[i][3], b[0], b[1]);
        multiply_16(sums[i][j + 1], a[i][0], a[i][1], a[i][2], a[i][3], b[2], b[3]);
      }
    }
  }
}

template <BackProductOf kOf>
__global__ void __launch_bounds__(kBlock) back_product_bf16(const BackProduct p) {
  __shared__ __align__(16) Tiles<kOf> tiles[2];
  const BackTile t = find_back_tile<kOf, kRows, kColumns>(p);
  if (t.is_empty()) return;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int m = warp / kWarpsN * kBlocksM * 16, n = warp % kWarpsN * kBlocksN * 8;
  float sums[kBlocksM][kBlocksN][4] = {};
  Staged staged;
  load_step<kOf>(staged, p, t, t.k_begin);
  int stage = 0;
  for (std::int64_t k0 = t.k_begin; k0 < t.k_end; k0 += kDepth, stage ^= 1) {
    store_step(staged, tiles[stage]);
    __syncthreads();  // and the other stage has been read
    if (k0 + kDepth < t.k_end) load_step<kOf>(staged, p, t, k0 + kDepth);
    multiply_step<kOf>(sums, tiles[stage], m, n);
  }
  float* const out = out_of<kOf>(p, t);
#pragma unroll
  for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
    for (int j = 0; j < kBlocksN; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const std::int64_t row = t.m0 + m + i * 16 + lane / 4 + e / 2 * 8;
        const std::int64_t column = t.n0 + n + j * 8 + lane % 4 * 2 + e % 2;
        if (row >= t.m_end || column >= p.n) continue;
        float& to = out[row * p.out_stride + column];
        to = p.adds ? to + sums[i][j][e] : sums[i][j][e];
      }
    }
  }
}

template <BackProductOf kOf>
void launch(const BackProduct& p, const Gpu& gpu) {
  back_product_bf16<kOf><<<back_grid<kOf>(p, kRows, kColumns), kBlock, 0, gpu.stream>>>(p);
}

}  // namespace

void launch_back_product_bf16(BackProductOf of, const BackProduct& p, const Gpu& gpu) {
  if (of == BackProductOf::kInput) return launch<BackProductOf::kInput>(p, gpu);
  launch<BackProductOf::kWeight>(p, gpu);
}

}  // namespace glint::cuda
