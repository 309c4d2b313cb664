// sparse_mla: a thread block for each token (x) and kHeads of its heads (y), with a warp for each
// head. Keys come in tiles of 32, as f32 in shared memory: a lane for each key while scores are
// computed, then a lane for each of every 32 latents. The softmax is rescaled as larger scores come
// (Milakov and Gimelshein, arXiv 1805.02867). The order of every sum is that of `indices`.
#include <type_traits>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/attention/heads.cuh"
#include "backends/cuda/attention/sparse_mla_512.h"
#include "backends/cuda/cache/rows.cuh"
#include "backends/cuda/reduce.cuh"
#include "base/check.h"
#include "base/str.h"

namespace glint::cuda {
namespace {

constexpr int kHeads = 8, kBlock = kHeads * kWarp;
constexpr int kKeys = kWarp;      // of a tile
constexpr int kLatentsEach = 16;  // of a lane
constexpr int kMostLatents = kLatentsEach * kWarp;

template <class Q>
struct Attention {
  Heads<const Q> q_latent, q_rope;
  Heads<Q> out;
  float* lse;  // [T, H]; null: not wanted
  const std::int32_t* indices;
  std::int64_t k;
  int heads;
  float scale;
  LatentRows rows;
};

// Element i of a cache row, as the activations `Q` see it.
template <class Q, class Cache>
__device__ float latent_at(const LatentRows& rows, const std::byte* row, int i) {
  if constexpr (std::is_same_v<Cache, std::uint8_t>) {
    const std::byte* scales = row + rows.latent_dim;
    if (i < rows.latent_dim) {
      const float scale = load_unaligned<float>(scales + 4 * (i / kScaleGroup));
      return as_float(rounded<Q>(e4m3_to_float(static_cast<std::uint8_t>(row[i])) * scale));
    }
    const int groups = (rows.latent_dim + kScaleGroup - 1) / kScaleGroup;
    return as_float(load_unaligned<bf16>(scales + 4 * groups + 2 * (i - rows.latent_dim)));
  } else {
    return as_float(reinterpret_cast<const Cache*>(row)[i]);
  }
}

// Shared memory: the queries [kHeads, width], then a tile of keys [kKeys, width + 1]; the padding
// lets lanes read one element of their keys without bank conflicts.
__host__ __device__ inline std::int64_t shared_bytes(std::int64_t width) {
  return (kHeads * width + kKeys * (width + 1)) * std::int64_t{sizeof(float)};
}

template <class Q>
__device__ void load_queries(const Attention<Q>& a, float* to, int width) {
  const std::int64_t h = blockIdx.y * kHeads + threadIdx.x / kWarp;
  if (h >= a.heads) return;
  float* q = to + threadIdx.x / kWarp * width;
  for (int i = threadIdx.x % kWarp; i < width; i += kWarp) {
    q[i] = as_float(i < a.rows.latent_dim ? a.q_latent.row(blockIdx.x, h)[i]
                                          : a.q_rope.row(blockIdx.x, h)[i - a.rows.latent_dim]);
  }
}

// A warp for each key. Keys that are not there are zeros.
template <class Q, class Cache>
__device__ void load_tile(const Attention<Q>& a, const std::int32_t* indices, std::int64_t left,
                          float* to, int width) {
  for (int j = threadIdx.x / kWarp; j < kKeys; j += kBlock / kWarp) {
    const std::int64_t slot = j < left ? indices[j] : -1;
    const std::byte* row = a.rows.row(slot < 0 ? 0 : slot);
    for (int i = threadIdx.x % kWarp; i < width; i += kWarp) {
      to[j * (width + 1) + i] = slot < 0 ? 0.0f : latent_at<Q, Cache>(a.rows, row, i);
    }
  }
}

// One head's softmax so far, over the keys of the tiles before.
struct Softmax {
  float largest = -INFINITY, sum = 0;
  float out[kLatentsEach] = {};  // of latents lane, lane + 32, ..
};

__device__ void add_tile(Softmax& s, const float* q, const float* keys, bool is_key, float scale,
                         const LatentRows& rows) {
  const int lane = threadIdx.x % kWarp, width = rows.latent_dim + rows.rope_dim;
  float dot = 0;
  for (int i = 0; i < width; ++i) dot = fmaf(q[i], keys[lane * (width + 1) + i], dot);
  const float score = is_key ? dot * scale : -INFINITY;
  const float largest = fmaxf(s.largest, warp_max(score));
  const float shrink = expf(s.largest - largest);
  const float p = is_key ? expf(score - largest) : 0.0f;
  s.largest = largest;
  s.sum = s.sum * shrink + warp_sum(p);
#pragma unroll
  for (float& out : s.out) out *= shrink;
  for (int j = 0; j < kKeys; ++j) {
    const float weight = __shfl_sync(kAllLanes, p, j);
    const float* key = keys + j * (width + 1);
#pragma unroll
    for (int i = 0; i < kLatentsEach; ++i) {
      const int d = lane + i * kWarp;
      if (d < rows.latent_dim) s.out[i] = fmaf(weight, key[d], s.out[i]);
    }
  }
}

template <class Q, class Cache>
__global__ void __launch_bounds__(kBlock) sparse_mla_kernel(const Attention<Q> a) {
  extern __shared__ float shared[];
  const int width = a.rows.latent_dim + a.rows.rope_dim;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  float* queries = shared;
  float* keys = shared + kHeads * width;
  const std::int64_t h = blockIdx.y * kHeads + warp;
  const std::int32_t* indices = a.indices + blockIdx.x * a.k;

  load_queries(a, queries, width);
  Softmax softmax;
  for (std::int64_t first = 0; first < a.k && indices[first] >= 0; first += kKeys) {
    __syncthreads();  // the tile before has been read
    load_tile<Q, Cache>(a, indices + first, a.k - first, keys, width);
    __syncthreads();
    if (h >= a.heads) continue;
    const bool is_key = first + lane < a.k && indices[first + lane] >= 0;
    add_tile(softmax, queries + warp * width, keys, is_key, a.scale, a.rows);
  }
  if (h >= a.heads) return;
  Q* out = a.out.row(blockIdx.x, h);
#pragma unroll
  for (int i = 0; i < kLatentsEach; ++i) {
    const int d = lane + i * kWarp;
    const float value = softmax.sum > 0 ? softmax.out[i] / softmax.sum : softmax.sum;
    if (d < a.rows.latent_dim) out[d] = rounded<Q>(value);
  }
  if (a.lse && lane == 0) {
    a.lse[blockIdx.x * std::int64_t{a.heads} + h] = softmax.largest + logf(softmax.sum);
  }
}

template <class Q, class Cache>
void launch(const Attention<Q>& attention, std::int64_t tokens, const Gpu& gpu) {
  const auto kernel = sparse_mla_kernel<Q, Cache>;
  const LatentRows& rows = attention.rows;
  const std::int64_t bytes = shared_bytes(rows.latent_dim + rows.rope_dim);
  GLINT_CHECK(rows.latent_dim <= kMostLatents && bytes <= gpu.arch.shared_bytes,
              str("sparse_mla: latents of ", rows.latent_dim, " + ", rows.rope_dim,
                  ", which supports_sparse_mla refuses"));
  // A failure shows as the launch's error.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(bytes));
  const dim3 grid(static_cast<unsigned>(tokens),
                  static_cast<unsigned>((attention.heads + kHeads - 1) / kHeads));
  kernel<<<grid, kBlock, static_cast<std::size_t>(bytes), gpu.stream>>>(attention);
}

}  // namespace

Status supports_sparse_mla(const AttentionDims& dims, const Arch& arch) {
  const int width = dims.kv_lora_rank + dims.qk_rope_head_dim;
  if (dims.kv_lora_rank <= kMostLatents && shared_bytes(width) <= arch.shared_bytes) return Ok{};
  const std::int64_t most =
      (arch.shared_bytes - shared_bytes(0)) / (shared_bytes(1) - shared_bytes(0));
  return Error{ErrorCode::kUnsupported,
               str("the cuda backend attends to latents of at most ", kMostLatents, " values, ",
                   most, " with those of rope, on this device; the model has ", dims.kv_lora_rank,
                   " + ", dims.qk_rope_head_dim, "; run it with --backend cpu")};
}

void launch_sparse_mla(const SparseMlaArgs& args, float* scores, const Gpu& gpu) {
  if (args.out.size() == 0) return;
  if (is_sparse_mla_512(args)) return launch_sparse_mla_512(args, scores, gpu);
  with_elements(args.out, [&]<class Q>(Q*) {
    const Attention<Q> attention = {.q_latent = heads_of<const Q>(args.q_latent),
                                    .q_rope = heads_of<const Q>(args.q_rope),
                                    .out = heads_of<Q>(args.out),
                                    .lse = args.lse ? args.lse.ptr<float>() : nullptr,
                                    .indices = args.indices.ptr<std::int32_t>(),
                                    .k = args.indices.dim(1),
                                    .heads = static_cast<int>(args.out.dim(1)),
                                    .scale = args.softmax_scale,
                                    .rows = latent_rows(args.kv)};
    with_cache_type(args.kv.format,
                    [&]<class Cache>(Cache) { launch<Q, Cache>(attention, args.out.dim(0), gpu); });
  });
}

}  // namespace glint::cuda
