// sparse_mla of bf16 queries over latents of 512 + 64, GLM-5's, on the tensor cores, with keys as
// the rows of their instructions and kHeads heads as columns: a rank of eight has no more heads.
// A cluster computes one token and kHeads of its heads.
#include "backends/cuda/attention/sparse_mla_512.cuh"
#include "backends/cuda/cluster.cuh"
#include "backends/cuda/dependent_launch.cuh"

namespace glint::cuda {
namespace mla512 {
namespace {

// Sums over a part's keys.
using PartSums = float[kHeads][kLatent];

// Shared memory of a thread block. Fp8 rows are copied as they are and then decoded; others are
// used where they were copied to.
template <bool kFp8, int kStages, int kParts>
struct Shared {
  static constexpr int kRowBytes = kFp8 ? kFp8Row : kRow * 2;
  alignas(128) std::byte stages[kStages][kKeys * kRowBytes];
  alignas(128) bf16 decoded[kFp8 ? kKeys * kRow : 8];
  float scores[kQuarters][kKeys][kHeads + 1];
  alignas(16) bf16 p[kHeads][kKeys + 8];
  float shrink[kHeads];
  std::int32_t slots[kParts * kSegment];
  std::uint64_t full[kStages];
  Parts<kParts> parts;
  alignas(16) std::byte first_sums[kParts > 1 ? (kParts - 1) * sizeof(PartSums) : 16];

  // The sums of a part; the last part's overwrite the stages.
  __device__ PartSums& sums_of(int part) {
    static_assert(sizeof(stages) >= sizeof(PartSums));
    return *reinterpret_cast<PartSums*>(part + 1 < kParts ? first_sums + part * sizeof(PartSums)
                                                          : stages[0]);
  }
};

// A thread block has kParts parts, one after the other.
template <bool kFp8, int kStages, int kParts>
__global__ void __launch_bounds__(kBlock, 2) sparse_mla_512_kernel(const Attention a) {
  extern __shared__ __align__(128) std::byte memory[];
  auto& shared = *reinterpret_cast<Shared<kFp8, kStages, kParts>*>(memory);
  let_next_start();
  wait_for_inputs();
  const auto cluster = this_cluster();
  const int blocks = static_cast<int>(cluster.num_blocks()),
            rank = static_cast<int>(cluster.block_rank());
  const std::int64_t token = blockIdx.x / blocks;
  const std::int32_t* const indices = a.indices + token * a.k;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;

  if (threadIdx.x == 0) {
    for (std::uint64_t& barrier : shared.full) start_barrier(&barrier, kArrivals);
    show_barriers();
  }
  std::uint32_t q[kQuarter][2];
  load_queries(a, token, q);
  // As it stays for parts that no keys are left for.
  if (lane < kParts) shared.parts.largest[lane][warp] = -INFINITY, shared.parts.sum[lane][warp] = 0;
  Softmax softmax;
  float sums[kLatentBlocks][4] = {};
  const auto end_part = [&](int part) {
    PartSums& out = shared.sums_of(part);
#pragma unroll
    for (int i = 0; i < kLatentBlocks; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int latent = (warp * kLatentBlocks + i) * 16 + lane / 4 + e / 2 * 8;
        out[lane % 4 * 2 + e % 2][latent] = sums[i][e];
        sums[i][e] = 0;
      }
    }
    __syncwarp();  // the parts of no keys are there
    if (lane == 0) {
      shared.parts.largest[part][warp] = softmax.largest;
      shared.parts.sum[part][warp] = softmax.sum;
    }
    softmax = {};
  };
  constexpr int kTilesOfPart = kSegment / kKeys;
  RingPlace<kStages> now, next;  // of the keys that are used, and of those that are copied
  // Once, but for a part of several segments.
  for (std::int64_t first = std::int64_t{rank} * kParts * kSegment; first < a.k;
       first += most_parts(kArch) * kSegment) {
    __syncthreads();  // the segment before has been read
    for (int i = threadIdx.x; i < kParts * kSegment; i += kBlock) {
      shared.slots[i] = first + i < a.k ? indices[first + i] : -1;
    }
    __syncthreads();
    const auto is_tile = [&](int tile) {
      return tile < kParts * kTilesOfPart && shared.slots[tile * kKeys] >= 0;
    };
    if (!is_tile(0)) break;
    const auto copy = [&](int tile) {
      if (!is_tile(tile)) return;
      start_copy<kFp8>(a, shared.slots + tile * kKeys, shared.stages[next.stage],
                       shared.full + next.stage);
      next.advance();
    };
    for (int i = 0; i < kStages - 1; ++i) copy(i);
    for (int tile = 0; is_tile(tile); ++tile) {
      __syncthreads();  // the stage before is free
      copy(tile + kStages - 1);
      wait_at(shared.full + now.stage, now.parity);
      const std::byte* const stage = shared.stages[now.stage];
      now.advance();
      const bf16* keys = reinterpret_cast<const bf16*>(stage);
      if constexpr (kFp8) {
        decode(stage, shared.decoded);
        keys = shared.decoded;
        __syncthreads();
      }
      score(keys, q, shared);
      __syncthreads();
      weigh(softmax, a, shared, warp, shared.slots[tile * kKeys + lane] >= 0);
      __syncthreads();
      add_keys(sums, keys, shared);
      const int part = tile / kTilesOfPart;
      if (part + 1 < kParts && (tile % kTilesOfPart == kTilesOfPart - 1 || !is_tile(tile + 1))) {
        end_part(part);
      }
    }
  }
  __syncthreads();  // the stages have been read
  end_part(kParts - 1);
  add_parts<kParts, kLatent>(cluster, a, token, 0, shared.parts,
                             [&](int part) -> PartSums& { return shared.sums_of(part); });
}

template <bool kFp8, int kStages, int kParts = 1>
void launch(const Attention& attention, std::int64_t tokens, const Gpu& gpu) {
  const auto kernel = sparse_mla_512_kernel<kFp8, kStages, kParts>;
  constexpr int kBytes = sizeof(Shared<kFp8, kStages, kParts>);
  static_assert(kBytes <= shared_bytes(kFp8, kStages, kParts));
  // A failure shows as the launch's error.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  const std::int64_t segments = (attention.k + kSegment - 1) / kSegment;
  const auto blocks = static_cast<unsigned>(
      (min(std::int64_t{most_parts(gpu.arch)}, segments) + kParts - 1) / kParts);
  const LaunchShape shape = {
      .grid = dim3(static_cast<unsigned>(tokens) * blocks,
                   static_cast<unsigned>((attention.heads + kHeads - 1) / kHeads)),
      .block = kBlock,
      .shared = kBytes,
      .cluster = blocks};
  launch_dependent(kernel, shape, gpu, attention);
}

void launch(const Kernel& kernel, const Attention& attention, std::int64_t tokens, bool fp8,
            float* scores, const Gpu& gpu) {
  if (kernel.way == Way::kFewTokens) return launch_few(attention, tokens, fp8, scores, gpu);
  if (kernel.way == Way::kOneBlock) return launch_one_block(attention, tokens, fp8, gpu);
  if (kernel == Kernel{.stages = 2, .parts = 2}) {
    return (fp8 ? launch<true, 2, 2> : launch<false, 2, 2>)(attention, tokens, gpu);
  }
  if (kernel == Kernel{.stages = 4, .parts = 4}) {
    return (fp8 ? launch<true, 4, 4> : launch<false, 4, 4>)(attention, tokens, gpu);
  }
  if (kernel.stages == 7) return launch<true, 7>(attention, tokens, gpu);
  if (kernel.stages == 5) return launch<false, 5>(attention, tokens, gpu);
  if (kernel.stages == 3) return launch<true, 3>(attention, tokens, gpu);
  (fp8 ? launch<true, 2> : launch<false, 2>)(attention, tokens, gpu);
}

}  // namespace
}  // namespace mla512

using namespace mla512;

bool is_sparse_mla_512(const SparseMlaArgs& args) {
  const auto is_even = [](const Tensor& x) {
    return reinterpret_cast<std::uintptr_t>(x.data) % 4 == 0 && x.stride[0] % 2 == 0 &&
           x.stride[1] % 2 == 0;
  };
  return args.out.dtype == DType::kBF16 && args.kv.format != LatentFormat::kF32 &&
         args.kv.latent_dim == kLatent && args.kv.rope_dim == kRope && args.indices.dim(1) > 0 &&
         reinterpret_cast<std::uintptr_t>(args.kv.data) % 16 == 0 && args.kv.stride() % 16 == 0 &&
         is_even(args.q_latent) && is_even(args.q_rope) && is_even(args.out);
}

void launch_sparse_mla_512(const SparseMlaArgs& args, float* scores, const Gpu& gpu) {
  const std::int64_t tokens = args.out.dim(0);
  const bool fp8 = args.kv.format == LatentFormat::kFp8;
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
  const Shape shape = {.tokens = tokens, .heads = attention.heads, .k = attention.k, .fp8 = fp8};
  launch(choose_kernel(shape, gpu.arch, gpu.num_sms), attention, tokens, fp8, scores, gpu);
}

}  // namespace glint::cuda
