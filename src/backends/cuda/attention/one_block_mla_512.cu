// sparse_mla with a thread block for each token, where tokens are many: its keys go by without a
// break, and no thread blocks meet. Two share a multiprocessor, so that one multiplies while the
// other waits. Every sum is that of the other kernels.
#include "backends/cuda/attention/sparse_mla_512.cuh"
#include "backends/cuda/dependent_launch.cuh"

namespace glint::cuda::mla512 {
namespace {

constexpr int kStages = 2, kTilesOfSegment = kSegment / kKeys;

template <bool kFp8>
struct Shared {
  static constexpr int kRowBytes = kFp8 ? kFp8Row : kRow * 2;
  alignas(128) std::byte stages[kStages][kKeys * kRowBytes];
  alignas(128) bf16 decoded[kFp8 ? kKeys * kRow : 8];
  float scores[kQuarters][kKeys][kHeads + 1];
  alignas(16) bf16 p[kHeads][kKeys + 8];
  float shrink[kHeads], sum[kHeads];
  PartWeight parts[kHeads];  // at the end of a segment
  alignas(16) std::int32_t slots[kMostKeys];
  std::uint64_t full[kStages];
};
// The sums of all keys replace the stages: [kHeads, kLatent].
template <bool kFp8>
__device__ float* sums_of(Shared<kFp8>& shared) {
  static_assert(sizeof(shared.stages) >= kHeads * kLatent * sizeof(float));
  return reinterpret_cast<float*>(shared.stages[0]);
}

// Writes the answer of a token; every thread of the block calls it with the same arguments.
template <bool kFp8>
__device__ void write(const Attention& a, std::int64_t token, Shared<kFp8>& shared) {
  const float* const sums = sums_of(shared);
  constexpr int kPairs = kLatent / 2;
#pragma unroll
  for (int i = threadIdx.x; i < kHeads * kPairs; i += kBlock) {
    const int c = i / kPairs, d = i % kPairs * 2;
    if (std::int64_t{blockIdx.y} * kHeads + c >= a.heads) continue;
    write_pair(a, token, c, d, *reinterpret_cast<const float2*>(sums + c * kLatent + d),
               shared.sum[c]);
  }
}

template <bool kFp8>
__global__ void __launch_bounds__(kBlock, 2) one_block_mla_512_kernel(const Attention a) {
  extern __shared__ __align__(128) std::byte memory[];
  auto& shared = *reinterpret_cast<Shared<kFp8>*>(memory);
  const std::int64_t token = blockIdx.x;
  const std::int32_t* const indices = a.indices + token * a.k;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int keys_of_list = static_cast<int>(a.k);

  if (threadIdx.x == 0) {
    for (std::uint64_t& barrier : shared.full) start_barrier(&barrier, kArrivals);
    show_barriers();
  }
  int keys = 0;  // the valid ones are the first
  for (int i = threadIdx.x; i < kMostKeys; i += kBlock) {
    const std::int32_t slot = i < keys_of_list ? indices[i] : -1;
    shared.slots[i] = slot;
    keys += __syncthreads_count(slot >= 0);
  }
  const int tiles = (keys + kKeys - 1) / kKeys;
  const auto copy = [&](int tile) {
    const int stage = tile % kStages;
    if (tile >= tiles) return;
    start_copy<kFp8>(a, shared.slots + tile * kKeys, shared.stages[stage], shared.full + stage);
  };
  copy(0);
  std::uint32_t q[kQuarter][2];
  load_queries(a, token, q);
  Softmax all, softmax;  // of head `warp`: of the segments before, and of this one
  float total[kLatentBlocks][4] = {}, sums[kLatentBlocks][4] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    __syncthreads();  // the stage before is free
    copy(tile + 1);
    wait_at(shared.full + tile % kStages, tile / kStages % 2);
    const std::byte* const stage = shared.stages[tile % kStages];
    const bf16* from = reinterpret_cast<const bf16*>(stage);
    if constexpr (kFp8) {
      decode(stage, shared.decoded);
      from = shared.decoded;
      __syncthreads();
    }
    score(from, q, shared);
    __syncthreads();
    weigh(softmax, a, shared, warp, tile * kKeys + lane < keys);
    const bool ends = tile % kTilesOfSegment == kTilesOfSegment - 1 || tile + 1 == tiles;
    if (ends) {
      const PartWeight part = take_part(all, softmax.largest, softmax.sum);
      if (lane == 0) shared.parts[warp] = part;
      softmax = {};
    }
    __syncthreads();
    add_keys(sums, from, shared);
    if (!ends) continue;
    const PartWeight parts[2] = {shared.parts[lane % 4 * 2], shared.parts[lane % 4 * 2 + 1]};
#pragma unroll
    for (int i = 0; i < kLatentBlocks; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        total[i][e] = add_part(total[i][e], parts[e % 2], sums[i][e]);
        sums[i][e] = 0;
      }
    }
  }

  __syncthreads();  // the stages have been read
  float* const all_sums = sums_of(shared);
#pragma unroll
  for (int i = 0; i < kLatentBlocks; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int latent = (warp * kLatentBlocks + i) * 16 + lane / 4 + e / 2 * 8;
      all_sums[(lane % 4 * 2 + e % 2) * kLatent + latent] = total[i][e];
    }
  }
  const std::int64_t head = blockIdx.y * kHeads + warp;
  if (lane == 0) {
    shared.sum[warp] = all.sum;
    if (a.lse && head < a.heads) a.lse[token * a.heads + head] = all.largest + logf(all.sum);
  }
  __syncthreads();
  write(a, token, shared);
}

template <bool kFp8>
void launch(const Attention& attention, std::int64_t tokens, const Gpu& gpu) {
  const auto kernel = one_block_mla_512_kernel<kFp8>;
  constexpr int kBytes = sizeof(Shared<kFp8>);
  static_assert(2 * (kBytes + 1024) <= 228 << 10 && kBytes <= 99 << 10);
  // A failure shows as the launch's error.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  const LaunchShape shape = {
      .grid = dim3(static_cast<unsigned>(tokens),
                   static_cast<unsigned>((attention.heads + kHeads - 1) / kHeads)),
      .block = kBlock,
      .shared = kBytes};
  launch_in_order(kernel, shape, gpu, attention);
}

}  // namespace

void launch_one_block(const Attention& attention, std::int64_t tokens, bool fp8, const Gpu& gpu) {
  if (fp8) return launch<true>(attention, tokens, gpu);
  launch<false>(attention, tokens, gpu);
}

}  // namespace glint::cuda::mla512
