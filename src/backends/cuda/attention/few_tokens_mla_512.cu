// sparse_mla of few tokens, in two kernels, so that all of the device reads their keys: scores, a
// thread block for each tile of keys, and then sums, a cluster for each slice of the latents, with
// a thread block for each part. Every sum is that of the other kernels.
#include "backends/cuda/attention/sparse_mla_512.cuh"
#include "backends/cuda/cluster.cuh"
#include "backends/cuda/dependent_launch.cuh"

namespace glint::cuda::mla512 {
namespace {

constexpr int kTilesOfSegment = kSegment / kKeys, kMostTiles = kMostKeys / kKeys;
constexpr int kTileScores = kHeads * kKeys;
constexpr int kSlice = 16 * (kBlock / kWarp), kSlices = kLatent / kSlice;  // of latents
static_assert(kSlice == kScaleGroup && kSegment == kBlock);

// Scores of a tile, of kHeads heads: [kHeads, kKeys].
__device__ float* scores_of(float* scores, std::int64_t token, int tile) {
  const std::int64_t heads = token * gridDim.y + blockIdx.y;
  return scores + (heads * kMostTiles + tile) * kTileScores;
}

template <bool kFp8>
struct Scores {
  alignas(128) std::byte stage[kKeys * (kFp8 ? kFp8Row : kRow * 2)];
  alignas(128) bf16 decoded[kFp8 ? kKeys * kRow : 8];
  float scores[kQuarters][kKeys][kHeads + 1];
  std::int32_t slots[kKeys];
  std::uint64_t full;
};

template <bool kFp8>
__global__ void __launch_bounds__(kBlock, 2)
    score_tile_kernel(const Attention a, int tiles, float* to) {
  extern __shared__ __align__(128) std::byte memory[];
  auto& shared = *reinterpret_cast<Scores<kFp8>*>(memory);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  if (threadIdx.x == 0) {
    start_barrier(&shared.full, kArrivals);
    show_barriers();
  }
  wait_for_inputs();
  let_next_start();  // which knows then that the keys are there
  const std::int64_t token = blockIdx.x / tiles;
  const int tile = static_cast<int>(blockIdx.x % tiles), first = tile * kKeys;
  if (warp == 0) {
    shared.slots[lane] = first + lane < a.k ? a.indices[token * a.k + first + lane] : -1;
  }
  std::uint32_t q[kQuarter][2];
  load_queries(a, token, q);
  __syncthreads();
  if (shared.slots[0] < 0) return;
  start_copy<kFp8>(a, shared.slots, shared.stage, &shared.full);
  wait_at(&shared.full, 0);
  const bf16* keys = reinterpret_cast<const bf16*>(shared.stage);
  if constexpr (kFp8) {
    decode(shared.stage, shared.decoded);
    keys = shared.decoded;
    __syncthreads();
  }
  score(keys, q, shared);
  __syncthreads();
  scores_of(to, token, tile)[threadIdx.x] = score_of(a, shared, warp);
}

// A thread block's part of the sums: kSegment keys, and kSlice of their latents.
struct Sums {
  static constexpr int kStride = kSlice + 8;  // padded against conflicts
  alignas(128) bf16 keys[kSegment][kStride];
  alignas(16) bf16 p[kTilesOfSegment][kHeads][kKeys + 8];
  float shrink[kTilesOfSegment][kHeads];
  std::int32_t slots[kSegment];
  alignas(16) float sums[kHeads][kSlice];
  Parts<1> parts;
};

// Brings the slice of so many tiles of the keys of `shared.slots`; past their end anything finite.
template <bool kFp8>
__device__ void load_slices(const Attention& a, int slice, int tiles, Sums& shared) {
  constexpr int kRowBytes = kFp8 ? kFp8Row : kWidth * 2;
  constexpr int kElements = kFp8 ? 16 : 8, kUnits = kSlice / kElements;  // of 16 bytes
#pragma unroll 8
  for (int i = threadIdx.x; i < tiles * kKeys * kUnits; i += kBlock) {
    const int key = i / kUnits, unit = i % kUnits;
    const std::int32_t slot = max(shared.slots[key], 0);
    const std::byte* const row =
        a.rows + slot / kPageSize * a.page_stride + slot % kPageSize * kRowBytes;
    bf16* const to = &shared.keys[key][unit * kElements];
    if constexpr (kFp8) {
      const uint4 codes = *reinterpret_cast<const uint4*>(row + slice * kSlice + unit * 16);
      const float scale = *reinterpret_cast<const float*>(row + kLatent + slice * 4);
      decode_8({codes.x, codes.y}, scale, to);
      decode_8({codes.z, codes.w}, scale, to + 8);
    } else {
      copy_16(to, row + slice * kSlice * 2 + unit * 16, true);
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
}

template <bool kFp8>
__global__ void __launch_bounds__(kBlock, 2) add_slices_kernel(const Attention a, float* from) {
  extern __shared__ __align__(128) std::byte memory[];
  auto& shared = *reinterpret_cast<Sums*>(memory);
  const auto cluster = this_cluster();
  const int parts = static_cast<int>(cluster.num_blocks()),
            part = static_cast<int>(cluster.block_rank());
  const int slice = static_cast<int>(blockIdx.x) / parts % kSlices;
  const std::int64_t token = static_cast<int>(blockIdx.x) / parts / kSlices;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  let_next_start();
  // The kernel before let this one start when its own inputs were there: the indices and the keys,
  // of which L1 may hold what they were in an earlier layer.
  __threadfence();
  const std::int64_t first = std::int64_t{part} * kSegment + threadIdx.x;
  const std::int32_t slot = first < a.k ? a.indices[token * a.k + first] : -1;
  shared.slots[threadIdx.x] = slot;
  const int keys = __syncthreads_count(slot >= 0);  // the first ones
  const int tiles = (keys + kKeys - 1) / kKeys;
  load_slices<kFp8>(a, slice, tiles, shared);
  wait_for_inputs();

  // A warp for each head, a lane for each key of a tile.
  float scores[kTilesOfSegment], largest[kTilesOfSegment];
#pragma unroll
  for (int i = 0; i < kTilesOfSegment; ++i) {
    const float* const of_tile = scores_of(from, token, part * kTilesOfSegment + i);
    scores[i] = i * kKeys + lane < keys ? of_tile[threadIdx.x] : -INFINITY;
  }
#pragma unroll
  for (int i = 0; i < kTilesOfSegment; ++i) largest[i] = warp_max(scores[i]);
  Softmax softmax;
#pragma unroll
  for (int i = 0; i < kTilesOfSegment; ++i) {
    if (i >= tiles) continue;
    const Weighed weighed = weigh(softmax, scores[i], largest[i], i * kKeys + lane < keys);
    shared.p[i][warp][lane] = weighed.p;
    if (lane == 0) shared.shrink[i][warp] = weighed.shrink;
  }
  if (lane == 0) {
    shared.parts.largest[0][warp] = softmax.largest, shared.parts.sum[0][warp] = softmax.sum;
  }
  __syncthreads();

  // A warp for each 16 latents.
  float sums[1][4] = {};
  for (int i = 0; i < tiles; ++i) {
    add_keys<Sums::kStride>(sums, shared.keys[i * kKeys], shared.p[i], shared.shrink[i]);
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    shared.sums[lane % 4 * 2 + e % 2][warp * 16 + lane / 4 + e / 2 * 8] = sums[0][e];
  }
  add_parts<1, kSlice>(cluster, a, token, slice * kSlice, shared.parts,
                       [&](int) -> float(&)[kHeads][kSlice] { return shared.sums; });
}

template <bool kFp8>
void launch(const Attention& a, std::int64_t tokens, float* scores, const Gpu& gpu) {
  const auto score = score_tile_kernel<kFp8>;
  const auto add = add_slices_kernel<kFp8>;
  // A failure shows as the launch's error.
  cudaFuncSetAttribute(score, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Scores<kFp8>));
  cudaFuncSetAttribute(add, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Sums));
  static_assert(sizeof(Scores<kFp8>) <= 99 << 10 && sizeof(Sums) <= 99 << 10);
  const auto many = static_cast<unsigned>(tokens);
  const auto groups = static_cast<unsigned>((a.heads + kHeads - 1) / kHeads);
  const auto tiles = static_cast<unsigned>((a.k + kKeys - 1) / kKeys);
  const auto parts = static_cast<unsigned>((a.k + kSegment - 1) / kSegment);
  launch_dependent(
      score, {.grid = dim3(many * tiles, groups), .block = kBlock, .shared = sizeof(Scores<kFp8>)},
      gpu, a, static_cast<int>(tiles), scores);
  launch_dependent(add,
                   {.grid = dim3(many * kSlices * parts, groups),
                    .block = kBlock,
                    .shared = sizeof(Sums),
                    .cluster = parts},
                   gpu, a, scores);
}

}  // namespace

void launch_few(const Attention& attention, std::int64_t tokens, bool fp8, float* scores,
                const Gpu& gpu) {
  (fp8 ? launch<true> : launch<false>)(attention, tokens, scores, gpu);
}

}  // namespace glint::cuda::mla512
