// A thread block computes 64 x 64 sums, 32 of k at a time, as f32 in shared memory.
#include "backends/cuda/backward/back_tile.cuh"

namespace glint::cuda {
namespace {

constexpr int kRows = 64, kColumns = 64, kDepth = 32;
constexpr int kSide = 16, kBlock = kSide * kSide, kEach = kRows / kSide;

// k-major; the padding keeps threads that store along k out of each other's banks.
struct Tiles {
  float g[kDepth][kRows + 1];
  float b[kDepth][kColumns + 1];
};

template <BackProductOf kOf, class B>
__device__ void load_tiles(Tiles& tiles, const BackProduct& p, const BackTile& t, std::int64_t k0) {
  constexpr bool kByInput = kOf == BackProductOf::kInput;
  float v[kVec];
  for (int i = threadIdx.x; i < kRows * kDepth / kVec; i += kBlock) {
    if constexpr (kByInput) {
      const int m = i / (kDepth / kVec), k = i % (kDepth / kVec) * kVec;
      load_g<kOf>(v, p, t, t.m0 + m, k0 + k);
#pragma unroll
      for (int j = 0; j < kVec; ++j) tiles.g[k + j][m] = v[j];
    } else {
      const int k = i / (kRows / kVec), m = i % (kRows / kVec) * kVec;
      load_g<kOf>(v, p, t, t.m0 + m, k0 + k);
#pragma unroll
      for (int j = 0; j < kVec; ++j) tiles.g[k][m + j] = v[j];
    }
  }
  for (int i = threadIdx.x; i < kColumns * kDepth / kVec; i += kBlock) {
    const int k = i / (kColumns / kVec), n = i % (kColumns / kVec) * kVec;
    const B* const row = row_of_b<kOf, B>(p, t, k0 + k);
    load(v, row + t.n0 + n, row ? p.n - t.n0 - n : 0);
#pragma unroll
    for (int j = 0; j < kVec; ++j) tiles.b[k][n + j] = v[j];
  }
}

// Thread (i, j) has rows i, i + kSide, .. and columns j, j + kSide, ...
template <BackProductOf kOf, class B>
__global__ void __launch_bounds__(kBlock) back_product_f32(const BackProduct p) {
  __shared__ Tiles tiles;
  const BackTile t = find_back_tile<kOf, kRows, kColumns>(p);
  if (t.is_empty()) return;
  const int row = threadIdx.x / kSide, column = threadIdx.x % kSide;
  float sums[kEach][kEach] = {};
  for (std::int64_t k0 = t.k_begin; k0 < t.k_end; k0 += kDepth) {
    __syncthreads();  // the tiles before have been read
    load_tiles<kOf, B>(tiles, p, t, k0);
    __syncthreads();
    float span[kEach][kEach] = {};
#pragma unroll 8
    for (int d = 0; d < kDepth; ++d) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          span[i][j] =
              fmaf(tiles.g[d][row + i * kSide], tiles.b[d][column + j * kSide], span[i][j]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) sums[i][j] += span[i][j];
    }
  }
  float* const out = out_of<kOf>(p, t);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const std::int64_t m = t.m0 + row + i * kSide;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const std::int64_t n = t.n0 + column + j * kSide;
      if (m >= t.m_end || n >= p.n) continue;
      float& to = out[m * p.out_stride + n];
      to = p.adds ? to + sums[i][j] : sums[i][j];
    }
  }
}

template <BackProductOf kOf>
void launch(const BackProduct& p, const Gpu& gpu) {
  const auto kernel = p.b_is_bf16 ? back_product_f32<kOf, bf16> : back_product_f32<kOf, float>;
  kernel<<<back_grid<kOf>(p, kRows, kColumns), kBlock, 0, gpu.stream>>>(p);
}

}  // namespace

void launch_back_product_f32(BackProductOf of, const BackProduct& p, const Gpu& gpu) {
  if (of == BackProductOf::kInput) return launch<BackProductOf::kInput>(p, gpu);
  launch<BackProductOf::kWeight>(p, gpu);
}

}  // namespace glint::cuda
