// sparse_mla_back: keys' gradients go to rows of their own, for some tokens at a time, and from
// there to the cache's, sorted by slot. Here are those sums, and plain kernels for all sizes.
#include <algorithm>

#include "backends/cuda/attention/heads.cuh"
#include "backends/cuda/backward/sparse_mla_back.h"
#include "backends/cuda/cache/rows.cuh"
#include "backends/cuda/elements.h"
#include "backends/cuda/reduce.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 128;

template <class Q>
struct Attention {
  Heads<const Q> q_latent, q_rope, out;
  Heads<float> dout, dq_latent, dq_rope;
  const float* lse;
  const std::int32_t* indices;
  std::int64_t heads, k;
  float scale;
  LatentRows rows;
  float *p, *ds;  // [T, H, k]
  float* dkeys;

  __device__ float q(std::int64_t t, std::int64_t h, int d) const {
    return as_float(d < rows.latent_dim ? q_latent.row(t, h)[d]
                                        : q_rope.row(t, h)[d - rows.latent_dim]);
  }
};

// A thread block for each token (x) and head (y), a warp for each key.
template <class Q, class Cache>
__global__ void __launch_bounds__(kBlock) weigh_keys(const Attention<Q> a) {
  const std::int64_t t = blockIdx.x, h = blockIdx.y;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int latent = a.rows.latent_dim, width = latent + a.rows.rope_dim;
  const float* const g = a.dout.row(t, h);
  float along = 0;
  for (int d = lane; d < latent; d += kWarp) along += g[d] * as_float(a.out.row(t, h)[d]);
  along = warp_sum(along);
  for (std::int64_t j = warp; j < a.k; j += kBlock / kWarp) {
    const std::int32_t slot = a.indices[t * a.k + j];
    if (slot < 0) return;
    const auto* const key = reinterpret_cast<const Cache*>(a.rows.row(slot));
    float score = 0, dp = 0;
    for (int d = lane; d < width; d += kWarp) {
      const float value = as_float(key[d]);
      score += a.q(t, h, d) * value;
      if (d < latent) dp += g[d] * value;
    }
    score = warp_sum(score);
    dp = warp_sum(dp);
    if (lane > 0) continue;
    const std::int64_t at = (t * a.heads + h) * a.k + j;
    const float p = expf(score * a.scale - a.lse[t * a.heads + h]);
    a.p[at] = p;
    a.ds[at] = p * (dp - along) * a.scale;
  }
}

// A thread block for each token (x) and head (y).
template <class Q, class Cache>
__global__ void __launch_bounds__(kBlock) sum_queries(const Attention<Q> a) {
  const std::int64_t t = blockIdx.x, h = blockIdx.y;
  const int latent = a.rows.latent_dim, width = latent + a.rows.rope_dim;
  for (int d = threadIdx.x; d < width; d += kBlock) {
    float sum = 0;
    for (std::int64_t j = 0; j < a.k; ++j) {
      const std::int32_t slot = a.indices[t * a.k + j];
      if (slot < 0) break;
      sum += a.ds[(t * a.heads + h) * a.k + j] *
             as_float(reinterpret_cast<const Cache*>(a.rows.row(slot))[d]);
    }
    (d < latent ? a.dq_latent.row(t, h)[d] : a.dq_rope.row(t, h)[d - latent]) += sum;
  }
}

// A thread block for each key (x) of a token (y).
template <class Q>
__global__ void __launch_bounds__(kBlock) sum_keys(const Attention<Q> a) {
  const std::int64_t j = blockIdx.x, t = blockIdx.y;
  if (a.indices[t * a.k + j] < 0) return;
  const int latent = a.rows.latent_dim, width = latent + a.rows.rope_dim;
  for (int d = threadIdx.x; d < width; d += kBlock) {
    float sum = 0;
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const std::int64_t at = (t * a.heads + h) * a.k + j;
      sum += a.ds[at] * a.q(t, h, d);
      if (d < latent) sum += a.p[at] * a.dout.row(t, h)[d];
    }
    a.dkeys[(t * a.k + j) * width + d] = sum;
  }
}

// Tokens [first, first + count) of all.
SparseMlaBackArgs slice_of(SparseMlaBackArgs args, std::int64_t first, std::int64_t count) {
  for (Tensor* x : {&args.op.q_latent, &args.op.q_rope, &args.op.indices, &args.op.out,
                    &args.op.lse, &args.dout, &args.dq_latent, &args.dq_rope}) {
    *x = x->slice(0, first, count);
  }
  return args;
}

}  // namespace

std::int64_t SparseMlaBackTemporaries::most_tokens(const SparseMlaBackArgs& args,
                                                   const Arch& arch) {
  constexpr std::int64_t kMost = std::int64_t{1280} << 20;  // bytes
  const std::int64_t H = args.dout.dim(1), k = args.op.indices.dim(1);
  const std::int64_t floats =
      k * (args.dcache.dim(1) + (is_queries_back_512(args, arch) ? 0 : 2 * H));
  constexpr std::int64_t kMostRows = 65535;  // of a grid
  return std::clamp<std::int64_t>(kMost / (4 * floats), 1, std::min(args.dout.dim(0), kMostRows));
}

SparseMlaBackTemporaries::SparseMlaBackTemporaries(const SparseMlaBackArgs& args,
                                                   std::int64_t tokens, const Arch& arch,
                                                   Arena& scratch) {
  const std::int64_t H = args.dout.dim(1), k = args.op.indices.dim(1);
  dkeys = scratch.take(DType::kF32, {tokens * k, args.dcache.dim(1)});
  if (is_queries_back_512(args, arch)) return;
  p = scratch.take(DType::kF32, {tokens, H, k});
  ds = scratch.take(DType::kF32, {tokens, H, k});
}

void launch_queries_back(const SparseMlaBackArgs& args, const SparseMlaBackTemporaries& to,
                         const Gpu& gpu) {
  const std::int64_t T = args.dout.dim(0), H = args.dout.dim(1), k = args.op.indices.dim(1);
  with_elements(args.op.q_latent, [&]<class Q>(Q*) {
    const Attention<Q> a = {.q_latent = heads_of<const Q>(args.op.q_latent),
                            .q_rope = heads_of<const Q>(args.op.q_rope),
                            .out = heads_of<const Q>(args.op.out),
                            .dout = heads_of<float>(args.dout),
                            .dq_latent = heads_of<float>(args.dq_latent),
                            .dq_rope = heads_of<float>(args.dq_rope),
                            .lse = args.op.lse.ptr<float>(),
                            .indices = args.op.indices.ptr<std::int32_t>(),
                            .heads = H,
                            .k = k,
                            .scale = args.op.softmax_scale,
                            .rows = latent_rows(args.op.kv),
                            .p = to.p.ptr<float>(),
                            .ds = to.ds.ptr<float>(),
                            .dkeys = to.dkeys.ptr<float>()};
    const dim3 heads(static_cast<unsigned>(T), static_cast<unsigned>(H));
    with_cache_type(args.op.kv.format, [&]<class Cache>(Cache) {
      weigh_keys<Q, Cache><<<heads, kBlock, 0, gpu.stream>>>(a);
      sum_queries<Q, Cache><<<heads, kBlock, 0, gpu.stream>>>(a);
    });
    const dim3 keys(static_cast<unsigned>(k), static_cast<unsigned>(T));
    sum_keys<Q><<<keys, kBlock, 0, gpu.stream>>>(a);
  });
}

void launch_sparse_mla_back(const SparseMlaBackArgs& args, Arena& scratch, const Gpu& gpu) {
  const std::int64_t T = args.dout.dim(0);
  if (args.dout.size() == 0 || args.op.indices.dim(1) == 0) return;
  const std::int64_t most = SparseMlaBackTemporaries::most_tokens(args, gpu.arch);
  for (std::int64_t first = 0; first < T; first += most) {
    const Arena::Scope scope(scratch);
    const std::int64_t count = std::min(most, T - first);
    const SparseMlaBackArgs some = slice_of(args, first, count);
    const SparseMlaBackTemporaries memory(some, count, gpu.arch, scratch);
    if (is_queries_back_512(args, gpu.arch)) {
      launch_queries_back_512(some, memory.dkeys, gpu);
    } else {
      launch_queries_back(some, memory, gpu);
    }
    launch_add_at({.places = some.op.indices, .from = memory.dkeys, .to = args.dcache}, scratch,
                  gpu);
  }
  launch_zero(args.dout, nullptr, gpu);
}

}  // namespace glint::cuda
