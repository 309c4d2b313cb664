// sparse_mla for groups of kTokens tokens that have one list of keys, as at the start of a prompt:
// a key that is in shared memory serves all of them. A column of the sums is a head of one of the
// tokens. Every sum is that of the other kernel, key by key: a key that a token has not, weighs 0.
#include <cuda_pipeline_primitives.h>

#include "backends/cuda/attention/sparse_mla_512.cuh"
#include "backends/cuda/dependent_launch.cuh"

namespace glint::cuda::mla512 {
namespace {

constexpr int kColumns = kTokens * kHeads, kStages = 2;

template <bool kFp8>
struct Shared {
  static constexpr int kRowBytes = kFp8 ? kFp8Row : kRow * 2;
  alignas(128) std::byte stages[kStages][kKeys * kRowBytes];
  alignas(128) bf16 decoded[kFp8 ? kKeys * kRow : 8];
  alignas(16) bf16 q[kColumns][kRow];
  float scores[kQuarters][kKeys][kColumns + 1];
  alignas(16) bf16 p[kColumns][kKeys + 8];
  float shrink[kColumns];
  std::int32_t slots[kSegment];
  int counts[kTokens];  // of a token's keys in the segment
  // The thread block hands these over at its end.
  float largest[kColumns], sum[kColumns];
  PartWeights<kColumns> weights;
  int flag;
};
// With them go the sums over keys, which replace keys, queries and scores: [kColumns, kLatent].
template <bool kFp8>
__device__ float* sums_of(Shared<kFp8>& shared) {
  static_assert(offsetof(Shared<kFp8>, p) >= kColumns * kLatent * sizeof(float));
  static_assert(sizeof(Shared<kFp8>) <= 227 << 10);
  return reinterpret_cast<float*>(&shared);
}

// Starts copying the queries; zeros for heads that are not there.
__device__ void copy_queries(const Attention& a, std::int64_t first, bf16 (&q)[kColumns][kRow]) {
  constexpr int kPairs = kWidth / 2;
#pragma unroll 8
  for (int i = threadIdx.x; i < kColumns * kPairs; i += kBlock) {
    const int c = i / kPairs, d = i % kPairs * 2;
    const std::int64_t token = first + c / kHeads, head = blockIdx.y * kHeads + c % kHeads;
    const std::int64_t known = min(head, std::int64_t{a.heads} - 1);
    const bf16* const from =
        d < kLatent
            ? a.q_latent + token * a.q_latent_strides[0] + known * a.q_latent_strides[1] + d
            : a.q_rope + token * a.q_rope_strides[0] + known * a.q_rope_strides[1] + d - kLatent;
    const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(&q[c][d]));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
                 "r"(head < a.heads ? 4 : 0)
                 : "memory");
  }
}

// Eight columns by sixteen, and the next eight columns: b of two instructions.
__device__ void load_columns(std::uint32_t (&b)[4], const bf16* rows, int stride, int column) {
  const int lane = threadIdx.x % kWarp;
  load_matrices<false>(b, rows + (lane / 16 * 8 + lane % 8) * stride + column + lane / 8 % 2 * 8);
}

template <bool kFp8>
__device__ void score(const bf16* keys, Shared<kFp8>& shared) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int quarter = warp % kQuarters, first = warp / kQuarters * 16;
  float sums[kTokens][4] = {};
#pragma unroll
  for (int i = 0; i < kQuarter; ++i) {
    const int column = (quarter * kQuarter + i) * 16;
    std::uint32_t x[4];
    load_matrices<false>(x, keys + (first + lane % 16) * kRow + column + lane / 16 * 8);
#pragma unroll
    for (int t = 0; t < kTokens; t += 2) {
      std::uint32_t q[4];
      load_columns(q, shared.q[t * kHeads], kRow, column);
      multiply_add(sums[t], x, q[0], q[1]);
      multiply_add(sums[t + 1], x, q[2], q[3]);
    }
  }
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      shared.scores[quarter][first + lane / 4 + e / 2 * 8][t * kHeads + lane % 4 * 2 + e % 2] =
          sums[t][e];
    }
  }
}

// sums[latents of the warp, columns] = sums * shrink + keys^T * p
template <bool kFp8>
__device__ void add_keys(float (&sums)[kTokens][kLatentBlocks][4], const bf16* keys,
                         const Shared<kFp8>& shared) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    const float* const shrink = shared.shrink + t * kHeads + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kLatentBlocks; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[t][i][e] *= shrink[e % 2];
    }
  }
#pragma unroll
  for (int k = 0; k < kKeys; k += 16) {
    std::uint32_t p[kTokens / 2][4];
#pragma unroll
    for (int t = 0; t < kTokens; t += 2) {
      load_columns(p[t / 2], shared.p[t * kHeads], kKeys + 8, k);
    }
#pragma unroll
    for (int i = 0; i < kLatentBlocks; ++i) {
      // Transposed: matrices of 8 keys by 8 latents; first the latents' halves, then the keys'.
      const int latent = (warp * kLatentBlocks + i) * 16 + lane / 8 % 2 * 8;
      std::uint32_t x[4];
      load_matrices<true>(x, keys + (k + lane / 16 * 8 + lane % 8) * kRow + latent);
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        multiply_add(sums[t][i], x, p[t / 2][t % 2 * 2], p[t / 2][t % 2 * 2 + 1]);
      }
    }
  }
}

template <bool kFp8>
__global__ void __launch_bounds__(kBlock, 1) one_list_mla_512_kernel(const Attention a) {
  extern __shared__ __align__(128) std::byte memory[];
  auto& shared = *reinterpret_cast<Shared<kFp8>*>(memory);
  let_next_start();
  wait_for_inputs();
  const auto cluster = this_cluster();
  const std::int64_t group = blockIdx.x / cluster.num_blocks(), first = group * kTokens;
  if (!have_one_list(cluster, a, group, shared.flag)) return;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::int64_t begin = std::int64_t{cluster.block_rank()} * kSegment;

  for (int i = threadIdx.x; i < kSegment; i += kBlock) {
    shared.slots[i] = begin + i < a.k ? a.indices[(first + kTokens - 1) * a.k + begin + i] : -1;
  }
  {  // a warp counts a token's keys
    int count = 0;
    for (int i = lane; i < kSegment; i += kWarp) {
      count += begin + i < a.k && a.indices[(first + warp) * a.k + begin + i] >= 0;
    }
    count = warp_reduce(count, [](int x, int y) { return x + y; });
    if (lane == 0) shared.counts[warp] = count;
  }
  __syncthreads();
  const int tiles = (shared.counts[kTokens - 1] + kKeys - 1) / kKeys;
  Softmax softmax[kTokens];  // of head `warp` of each
  float sums[kTokens][kLatentBlocks][4] = {};
  if (tiles > 0) {
    start_copy<kFp8>(a, shared.slots, shared.stages[0]);
    copy_queries(a, first, shared.q);
  }
  __pipeline_commit();
  for (int tile = 0; tile < tiles; ++tile) {
    __pipeline_wait_prior(0);
    __syncthreads();  // the copies of all threads are there, and the stage before is free
    if (tile + 1 < tiles) {
      start_copy<kFp8>(a, shared.slots + (tile + 1) * kKeys, shared.stages[(tile + 1) % kStages]);
    }
    __pipeline_commit();
    const std::byte* const stage = shared.stages[tile % kStages];
    const bf16* keys = reinterpret_cast<const bf16*>(stage);
    if constexpr (kFp8) {
      decode(stage, shared.decoded);
      keys = shared.decoded;
      __syncthreads();
    }
    score(keys, shared);
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      const bool is_key = tile * kKeys + lane < shared.counts[t];
      weigh(softmax[t], a, shared, t * kHeads + warp, is_key);
    }
    __syncthreads();
    add_keys(sums, keys, shared);
  }

  __syncthreads();
  float* const all_sums = sums_of(shared);
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
#pragma unroll
    for (int i = 0; i < kLatentBlocks; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int latent = (warp * kLatentBlocks + i) * 16 + lane / 4 + e / 2 * 8;
        all_sums[(t * kHeads + lane % 4 * 2 + e % 2) * kLatent + latent] = sums[t][i][e];
      }
    }
    if (lane == 0) {
      shared.largest[t * kHeads + warp] = softmax[t].largest;
      shared.sum[t * kHeads + warp] = softmax[t].sum;
    }
  }
  add_parts(cluster, a, first, shared.largest, shared.sum, all_sums, shared.weights);
}

template <bool kFp8>
void launch(const Attention& attention, const Gpu& gpu) {
  const auto kernel = one_list_mla_512_kernel<kFp8>;
  constexpr int kBytes = sizeof(Shared<kFp8>);
  // A failure shows as the launch's error.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  const auto blocks = static_cast<unsigned>((attention.k + kSegment - 1) / kSegment);
  const LaunchShape shape = {
      .grid = dim3(static_cast<unsigned>(attention.tokens / kTokens) * blocks,
                   static_cast<unsigned>((attention.heads + kHeads - 1) / kHeads)),
      .block = kBlock,
      .shared = kBytes,
      .cluster = blocks};
  launch_dependent(kernel, shape, gpu, attention);
}

}  // namespace

void launch_one_list(const Attention& attention, bool fp8, const Gpu& gpu) {
  if (fp8) return launch<true>(attention, gpu);
  launch<false>(attention, gpu);
}

}  // namespace glint::cuda::mla512
