// sparse_mla of bf16 queries over latents of 512 + 64, GLM-5's, on the tensor cores, with keys as
// the rows of their instructions and kHeads heads as columns: a rank of eight has no more heads.
//
// Keys are cut into segments of kSegment by their position. A cluster computes one token and
// kHeads of its heads, a thread block every eighth segment, kKeys keys at a time: scores by all
// warps, softmax with a warp for each head and a lane for each key, then the sums over keys. The
// thread blocks' parts are added up in order. So the order of every sum is that of `indices`.
#include <cuda_pipeline_primitives.h>

#include "backends/cuda/attention/sparse_mla_512.h"
#include "backends/cuda/cache/rows.cuh"
#include "backends/cuda/cluster.cuh"
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/linear/codes.cuh"
#include "backends/cuda/reduce.cuh"

namespace glint::cuda {
namespace {

constexpr int kLatent = 512, kRope = 64, kWidth = kLatent + kRope;
constexpr int kHeads = 8, kBlock = kHeads * kWarp;
constexpr int kKeys = kWarp, kSegment = 256, kMostBlocks = 8;  // of a cluster
constexpr int most_blocks(const Arch& arch) { return arch.clusters ? kMostBlocks : 1; }

// Warps of the scores: 16 keys and a quarter of the width each.
constexpr int kQuarters = 4, kQuarter = kWidth / kQuarters / 16;  // instructions
constexpr int kRow = kWidth + 8;  // bf16 of a key in shared memory: padded against conflicts
constexpr int kFp8Row = 656;      // bytes in the cache
constexpr int kLatentBlocks = kLatent / 16 / (kBlock / kWarp);  // of 16, of a warp

struct Attention {
  const bf16 *q_latent, *q_rope;
  std::int64_t q_latent_strides[2], q_rope_strides[2];  // of tokens and heads
  bf16* out;
  std::int64_t out_strides[2];
  float* lse;  // [T, H]; null: not wanted
  const std::int32_t* indices;
  std::int64_t k;
  int heads;
  float scale;
  const std::byte* rows;
  std::int64_t page_stride;
};

// Shared memory of a thread block. Fp8 rows are copied as they are and then decoded; others are
// used where they were copied to.
template <bool kFp8, int kStages>
struct Shared {
  static constexpr int kRowBytes = kFp8 ? kFp8Row : kRow * 2;
  alignas(128) std::byte stages[kStages][kKeys * kRowBytes];
  alignas(128) bf16 decoded[kFp8 ? kKeys * kRow : 8];
  float scores[kQuarters][kKeys][kHeads + 1];
  alignas(16) bf16 p[kHeads][kKeys + 8];
  float shrink[kHeads];
  std::int32_t slots[kSegment];
  // The thread block hands these over at its end.
  float largest[kHeads], sum[kHeads];
};
// With them go the sums over keys, which replace the stages: [kHeads, kLatent].
template <bool kFp8, int kStages>
__device__ float* sums_of(Shared<kFp8, kStages>& shared) {
  static_assert(sizeof(shared.stages) >= kHeads * kLatent * sizeof(float));
  return reinterpret_cast<float*>(shared.stages[0]);
}

template <bool kTransposed>
__device__ void load_matrices(std::uint32_t (&r)[4], const bf16* address) {
  const auto from = static_cast<std::uint32_t>(__cvta_generic_to_shared(address));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
  }
}

__device__ void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                             std::uint32_t b1) {
  multiply_16(sums, a[0], a[1], a[2], a[3], b0, b1);
}

__device__ std::uint32_t pair_at(const bf16* p) {
  return *reinterpret_cast<const std::uint32_t*>(p);
}

// Starts copying the keys [first, first + kKeys) of the segment; zeros where there is none.
template <bool kFp8, int kStages>
__device__ void start_copy(const Attention& a, Shared<kFp8, kStages>& shared, int first,
                           int stage) {
  constexpr int kFrom = kFp8 ? kFp8Row : kWidth * 2, kUnits = kFrom / 16;
  for (int i = threadIdx.x; i < kKeys * kUnits; i += kBlock) {
    const int key = i / kUnits, unit = i % kUnits;
    const std::int32_t slot = shared.slots[first + key];
    std::byte* const to = shared.stages[stage] + key * Shared<kFp8, kStages>::kRowBytes + unit * 16;
    const std::int32_t page = max(slot, 0) / kPageSize, row = max(slot, 0) % kPageSize;
    const std::byte* const from = a.rows + page * a.page_stride + row * kFrom + unit * 16;
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(slot < 0 ? 0 : 16)
                 : "memory");
  }
}

// Two codes times their scale.
__device__ std::uint32_t decode_pair(std::uint32_t codes, float scale) {
  const std::uint32_t pair = Codes<WeightFormat::kFp8Block>::decoded(codes);
  const __nv_bfloat162 both = __floats2bfloat162_rn(__uint_as_float(pair << 16) * scale,
                                                    __uint_as_float(pair & 0xffff0000u) * scale);
  std::uint32_t bits;
  memcpy(&bits, &both, sizeof(bits));
  return bits;
}

// Decodes kKeys fp8 rows, sixteen bytes at a time.
__device__ void decode(const std::byte* from, bf16* to) {
  constexpr int kCodeUnits = kLatent / 16, kUnits = kCodeUnits + kRope * 2 / 16;
  for (int i = threadIdx.x; i < kKeys * kUnits; i += kBlock) {
    const int key = i / kUnits, unit = i % kUnits;
    const std::byte* const row = from + key * kFp8Row;
    bf16* const out = to + key * kRow;
    if (unit < kCodeUnits) {
      const float scale =
          *reinterpret_cast<const float*>(row + kLatent + unit * 16 / kScaleGroup * 4);
      const uint4 codes = *reinterpret_cast<const uint4*>(row + unit * 16);
      const std::uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
      std::uint32_t pairs[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        pairs[j] = decode_pair(__byte_perm(words[j / 2], 0, j % 2 ? 0x3424 : 0x1404), scale);
      }
      uint4* const at = reinterpret_cast<uint4*>(out + unit * 16);
      at[0] = {pairs[0], pairs[1], pairs[2], pairs[3]};
      at[1] = {pairs[4], pairs[5], pairs[6], pairs[7]};
    } else {
      const int rope = (unit - kCodeUnits) * 16;  // bytes
      *reinterpret_cast<uint4*>(reinterpret_cast<std::byte*>(out + kLatent) + rope) =
          *reinterpret_cast<const uint4*>(row + kLatent + kLatent / kScaleGroup * 4 + rope);
    }
  }
}

// The queries as a warp of the scores needs them: of head lane / 4, a quarter of the width.
__device__ void load_queries(const Attention& a, std::int64_t token,
                             std::uint32_t (&q)[kQuarter][2]) {
  const int lane = threadIdx.x % kWarp, quarter = threadIdx.x / kWarp % kQuarters;
  const std::int64_t head = blockIdx.y * kHeads + lane / 4;
#pragma unroll
  for (int i = 0; i < kQuarter; ++i) {
    const int d = (quarter * kQuarter + i) * 16 + lane % 4 * 2;
    const bf16* const from =
        d < kLatent
            ? a.q_latent + token * a.q_latent_strides[0] + head * a.q_latent_strides[1] + d
            : a.q_rope + token * a.q_rope_strides[0] + head * a.q_rope_strides[1] + d - kLatent;
    q[i][0] = head < a.heads ? pair_at(from) : 0;
    q[i][1] = head < a.heads ? pair_at(from + 8) : 0;
  }
}

template <bool kFp8, int kStages>
__device__ void score(const bf16* keys, const std::uint32_t (&q)[kQuarter][2],
                      Shared<kFp8, kStages>& shared) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int quarter = warp % kQuarters, first = warp / kQuarters * 16;
  float sums[4] = {};
#pragma unroll
  for (int i = 0; i < kQuarter; ++i) {
    std::uint32_t x[4];
    load_matrices<false>(
        x, keys + (first + lane % 16) * kRow + (quarter * kQuarter + i) * 16 + lane / 16 * 8);
    multiply_add(sums, x, q[i][0], q[i][1]);
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    shared.scores[quarter][first + lane / 4 + e / 2 * 8][lane % 4 * 2 + e % 2] = sums[e];
  }
}

// The softmax of head `warp` so far, in every lane.
struct Softmax {
  float largest = -INFINITY, sum = 0;
};

// Takes the scores of a tile in, a lane for each key, and leaves their weights.
template <bool kFp8, int kStages>
__device__ void weigh(Softmax& s, const Attention& a, Shared<kFp8, kStages>& shared, bool is_key) {
  const int key = threadIdx.x % kWarp, head = threadIdx.x / kWarp;
  float dot = 0;
#pragma unroll
  for (int i = 0; i < kQuarters; ++i) dot += shared.scores[i][key][head];
  const float score = is_key ? dot * a.scale : -INFINITY;
  const float largest = fmaxf(s.largest, warp_max(score));
  const float shrink = expf(s.largest - largest);
  const bf16 p = __float2bfloat16_rn(is_key ? expf(score - largest) : 0.0f);
  s.largest = largest;
  s.sum = s.sum * shrink + warp_sum(as_float(p));
  shared.p[head][key] = p;
  if (key == 0) shared.shrink[head] = shrink;
}

// sums[latents of the warp, heads] = sums * shrink + keys^T * p
template <bool kFp8, int kStages>
__device__ void add_keys(float (&sums)[kLatentBlocks][4], const bf16* keys,
                         const Shared<kFp8, kStages>& shared) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const float shrink[2] = {shared.shrink[lane % 4 * 2], shared.shrink[lane % 4 * 2 + 1]};
#pragma unroll
  for (int i = 0; i < kLatentBlocks; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[i][e] *= shrink[e % 2];
  }
#pragma unroll
  for (int k = 0; k < kKeys; k += 16) {
    const bf16* const p = &shared.p[lane / 4][k + lane % 4 * 2];
    const std::uint32_t b0 = pair_at(p), b1 = pair_at(p + 8);
#pragma unroll
    for (int i = 0; i < kLatentBlocks; ++i) {
      // Transposed: matrices of 8 keys by 8 latents; first the latents' halves, then the keys'.
      const int latent = (warp * kLatentBlocks + i) * 16 + lane / 8 % 2 * 8;
      std::uint32_t x[4];
      load_matrices<true>(x, keys + (k + lane / 16 * 8 + lane % 8) * kRow + latent);
      multiply_add(sums[i], x, b0, b1);
    }
  }
}

template <bool kFp8, int kStages>
__global__ void __launch_bounds__(kBlock, 2) sparse_mla_512_kernel(const Attention a) {
  extern __shared__ __align__(128) std::byte memory[];
  auto& shared = *reinterpret_cast<Shared<kFp8, kStages>*>(memory);
  let_next_start();
  wait_for_inputs();
  const auto cluster = this_cluster();
  const int blocks = static_cast<int>(cluster.num_blocks()),
            rank = static_cast<int>(cluster.block_rank());
  const std::int64_t token = blockIdx.x / blocks;
  const std::int32_t* const indices = a.indices + token * a.k;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;

  std::uint32_t q[kQuarter][2];
  load_queries(a, token, q);
  Softmax softmax;
  float sums[kLatentBlocks][4] = {};
  for (std::int64_t first = std::int64_t{rank} * kSegment; first < a.k && indices[first] >= 0;
       first += most_blocks(kArch) * kSegment) {
    __syncthreads();  // the segment before has been read
    for (int i = threadIdx.x; i < kSegment; i += kBlock) {
      shared.slots[i] = first + i < a.k ? indices[first + i] : -1;
    }
    __syncthreads();
    for (int i = 0; i < kStages - 1; ++i) {
      start_copy(a, shared, i * kKeys, i);
      __pipeline_commit();
    }
    for (int tile = 0; tile < kSegment / kKeys && shared.slots[tile * kKeys] >= 0; ++tile) {
      __pipeline_wait_prior(kStages - 2);
      __syncthreads();  // the copies of all threads are there, and the stage before is free
      const int ahead = tile + kStages - 1;
      if (ahead < kSegment / kKeys && shared.slots[ahead * kKeys] >= 0) {
        start_copy(a, shared, ahead * kKeys, ahead % kStages);
      }
      __pipeline_commit();
      const std::byte* const stage = shared.stages[tile % kStages];
      const bf16* keys = reinterpret_cast<const bf16*>(stage);
      if constexpr (kFp8) {
        decode(stage, shared.decoded);
        keys = shared.decoded;
        __syncthreads();
      }
      score(keys, q, shared);
      __syncthreads();
      weigh(softmax, a, shared, shared.slots[tile * kKeys + lane] >= 0);
      __syncthreads();
      add_keys(sums, keys, shared);
    }
    __pipeline_wait_prior(0);
  }

  __syncthreads();
  float* const all_sums = sums_of(shared);
#pragma unroll
  for (int i = 0; i < kLatentBlocks; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int latent = (warp * kLatentBlocks + i) * 16 + lane / 4 + e / 2 * 8;
      all_sums[(lane % 4 * 2 + e % 2) * kLatent + latent] = sums[i][e];
    }
  }
  if (lane == 0) shared.largest[warp] = softmax.largest, shared.sum[warp] = softmax.sum;
  cluster.sync();
  for (int i = rank * kBlock + static_cast<int>(threadIdx.x); i < kHeads * kLatent;
       i += blocks * kBlock) {
    const int h = i / kLatent, d = i % kLatent;
    const std::int64_t head = blockIdx.y * kHeads + h;
    if (head >= a.heads) break;
    float largest = -INFINITY;
    for (int b = 0; b < blocks; ++b) {
      largest = fmaxf(largest, *cluster.map_shared_rank(&shared.largest[h], b));
    }
    float sum = 0, out = 0;
    for (int b = 0; b < blocks; ++b) {
      const float of = *cluster.map_shared_rank(&shared.largest[h], b);
      const float weight = of == -INFINITY ? 0.0f : expf(of - largest);
      sum = fmaf(weight, *cluster.map_shared_rank(&shared.sum[h], b), sum);
      out = fmaf(weight, cluster.map_shared_rank(all_sums, b)[i], out);
    }
    const float value = sum > 0 ? out / sum : sum;
    a.out[token * a.out_strides[0] + head * a.out_strides[1] + d] = __float2bfloat16_rn(value);
    if (a.lse && d == 0) a.lse[token * a.heads + head] = largest + logf(sum);
  }
  cluster.sync();  // the others have read this block's sums
}

template <bool kFp8, int kStages>
constexpr bool fits(const Arch& arch) {
  return sizeof(Shared<kFp8, kStages>) <= static_cast<std::size_t>(arch.shared_bytes);
}

template <bool kFp8, int kStages>
void launch(const Attention& attention, std::int64_t tokens, const Gpu& gpu) {
  const auto kernel = sparse_mla_512_kernel<kFp8, kStages>;
  constexpr int kBytes = sizeof(Shared<kFp8, kStages>);
  // A failure shows as the launch's error.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  const auto blocks = static_cast<unsigned>(
      min(std::int64_t{most_blocks(gpu.arch)}, (attention.k + kSegment - 1) / kSegment));
  const LaunchShape shape = {
      .grid = dim3(static_cast<unsigned>(tokens) * blocks,
                   static_cast<unsigned>((attention.heads + kHeads - 1) / kHeads)),
      .block = kBlock,
      .shared = kBytes,
      .cluster = blocks};
  launch_dependent(kernel, shape, gpu, attention);
}

}  // namespace

bool is_sparse_mla_512(const SparseMlaArgs& args) {
  const auto is_even = [](const Tensor& x) {
    return reinterpret_cast<std::uintptr_t>(x.data) % 4 == 0 && x.stride[0] % 2 == 0 &&
           x.stride[1] % 2 == 0;
  };
  return args.out.dtype == DType::kBF16 && args.kv.format != LatentFormat::kF32 &&
         args.kv.latent_dim == kLatent && args.kv.rope_dim == kRope && args.indices.dim(1) > 0 &&
         reinterpret_cast<std::uintptr_t>(args.kv.data) % 16 == 0 && args.kv.stride() % 16 == 0 &&
         is_even(args.q_latent) && is_even(args.q_rope);
}

void launch_sparse_mla_512(const SparseMlaArgs& args, const Gpu& gpu) {
  const Attention attention = {
      .q_latent = bf16_data(args.q_latent),
      .q_rope = bf16_data(args.q_rope),
      .q_latent_strides = {args.q_latent.stride[0], args.q_latent.stride[1]},
      .q_rope_strides = {args.q_rope.stride[0], args.q_rope.stride[1]},
      .out = bf16_data(args.out),
      .out_strides = {args.out.stride[0], args.out.stride[1]},
      .lse = args.lse ? args.lse.ptr<float>() : nullptr,
      .indices = args.indices.ptr<std::int32_t>(),
      .k = args.indices.dim(1),
      .heads = static_cast<int>(args.out.dim(1)),
      .scale = args.softmax_scale,
      .rows = args.kv.data,
      .page_stride = args.kv.stride()};
  // Two thread blocks share a multiprocessor; few that do not fill it have more keys under way, as
  // far as its shared memory goes.
  constexpr std::int64_t kFewTokens = 16;
  const std::int64_t tokens = args.out.dim(0);
  const bool few = tokens <= kFewTokens;
  if (args.kv.format == LatentFormat::kFp8) {
    if (few && fits<true, 7>(gpu.arch)) return launch<true, 7>(attention, tokens, gpu);
    if (fits<true, 3>(gpu.arch)) return launch<true, 3>(attention, tokens, gpu);
    return launch<true, 2>(attention, tokens, gpu);
  }
  if (few && fits<false, 5>(gpu.arch)) return launch<false, 5>(attention, tokens, gpu);
  launch<false, 2>(attention, tokens, gpu);
}

}  // namespace glint::cuda
