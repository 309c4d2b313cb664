// Gradients of queries and keys for GLM-5's sizes. A thread block computes one token and kHeads of
// its heads, whose queries and gradients stay in shared memory, kKeys keys at a time: scores, what
// they and the keys' weights get, the queries' sums in registers, and the keys' rows, which are
// written while the next keys are on their way.
#include <cuda_pipeline_primitives.h>

#include "backends/cuda/attention/heads.cuh"
#include "backends/cuda/backward/sparse_mla_back.h"
#include "backends/cuda/cache/rows.cuh"
#include "backends/cuda/linear/codes.cuh"
#include "backends/cuda/load_matrices.cuh"
#include "backends/cuda/reduce.cuh"

namespace glint::cuda {
namespace {

constexpr int kLatent = 512, kRope = 64, kWidth = kLatent + kRope;
constexpr int kHeads = 64, kKeys = 32, kBlock = 512, kWarps = kBlock / kWarp;
// bf16 of rows in shared memory: the padding keeps eight rows in different banks.
constexpr int kRow = kWidth + 8, kLatentRow = kLatent + 8, kKeysRow = kKeys + 8;

struct Shared {
  alignas(16) bf16 q[kHeads * kRow];
  alignas(16) bf16 g[kHeads * kLatentRow];  // the padding is zero
  alignas(16) bf16 keys[kKeys * kRow];
  alignas(16) bf16 p[kHeads * kKeysRow];
  alignas(16) bf16 ds[kHeads * kKeysRow];
  float lse[kHeads], along[kHeads];
};

struct Attention {
  Heads<const bf16> q_latent, q_rope, out;
  Heads<const float> dout;
  Heads<float> dq_latent, dq_rope;
  const float* lse;
  const std::int32_t* indices;
  std::int64_t k;
  int heads, first_head;
  float scale;
  LatentRows rows;
  float* dkeys;
};

// A warp for each head. Heads that are not there are zeros, with keys of weight zero.
__device__ void load_heads(const Attention& a, Shared& s) {
  constexpr float kZeros[kVec] = {};
  const int lane = threadIdx.x % kWarp;
  for (int h = threadIdx.x / kWarp; h < kHeads; h += kWarps) {
    const int head = a.first_head + h;
    const bool there = head < a.heads;
    float along = 0;
    for (int d = lane * kVec; d < kWidth; d += kWarp * kVec) {
      const bool is_latent = d < kLatent;
      float q[kVec], g[kVec], out[kVec];
      load(q,
           is_latent ? a.q_latent.row(blockIdx.x, head) + d
                     : a.q_rope.row(blockIdx.x, head) + d - kLatent,
           there ? kVec : 0);
      store(s.q + h * kRow + d, q, kVec);
      if (!is_latent) continue;
      load(g, a.dout.row(blockIdx.x, head) + d, there ? kVec : 0);
      load(out, a.out.row(blockIdx.x, head) + d, there ? kVec : 0);
      store(s.g + h * kLatentRow + d, g, kVec);
#pragma unroll
      for (int i = 0; i < kVec; ++i) along += g[i] * out[i];
    }
    along = warp_sum(along);
    if (lane > 0) continue;
    store(s.g + h * kLatentRow + kLatent, kZeros, kVec);
    s.along[h] = along;
    s.lse[h] = there ? a.lse[blockIdx.x * std::int64_t{a.heads} + head] : INFINITY;
  }
}

// Keys from `first` on; zeros from `count` on.
__device__ void start_copy(const Attention& a, Shared& s, int first, int count) {
  constexpr int kUnits = kWidth * 2 / 16;
  for (int i = threadIdx.x; i < kKeys * kUnits; i += kBlock) {
    const int key = i / kUnits, unit = i % kUnits;
    const bool there = first + key < count;
    const std::int32_t slot = there ? a.indices[blockIdx.x * a.k + first + key] : 0;
    __pipeline_memcpy_async(s.keys + key * kRow + unit * 8, a.rows.row(slot) + unit * 16, 16,
                            there ? 0 : 16);
  }
  __pipeline_commit();
}

// Addresses that lanes give for operands: 16 rows of the left one and 16 of k, as they lie or
// turned; 16 of k and 16 columns of the right one, turned; 8 rows and 32 of k, as they lie.
__device__ const bf16* left(const bf16* x, int stride) {
  const int lane = threadIdx.x % kWarp;
  return x + (lane % 8 + lane / 8 % 2 * 8) * stride + lane / 16 * 8;
}
__device__ const bf16* turned_left(const bf16* x, int stride) {
  const int lane = threadIdx.x % kWarp;
  return x + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8;
}
__device__ const bf16* turned_right(const bf16* x, int stride) { return left(x, stride); }
__device__ const bf16* right(const bf16* x, int stride) {
  const int lane = threadIdx.x % kWarp;
  return x + lane % 8 * stride + lane / 8 * 8;
}

using Sums = float[4];

// sums[16 heads x 8 keys] += x[16 heads] keys[8 keys], over kSize columns.
template <int kSize>
__device__ void score(Sums& sums, const bf16* x, int stride, const bf16* keys) {
#pragma unroll 4
  for (int d = 0; d < kSize; d += 32) {
    std::uint32_t a[4], b[4];
    load_matrices<false>(b, right(keys + d, kRow));
    load_matrices<false>(a, left(x + d, stride));
    multiply_16(sums, a, b[0], b[1]);
    load_matrices<false>(a, left(x + d + 16, stride));
    multiply_16(sums, a, b[2], b[3]);
  }
}

// A warp: 16 heads and 8 keys.
__device__ void weigh_keys(const Attention& a, Shared& s, int left_keys) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int head = warp % 4 * 16, key = warp / 4 * 8;
  Sums scores = {}, dp = {};
  score<kWidth>(scores, s.q + head * kRow, kRow, s.keys + key * kRow);
  score<kLatent>(dp, s.g + head * kLatentRow, kLatentRow, s.keys + key * kRow);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int h = head + lane / 4 + half * 8, j = key + lane % 4 * 2;
    float p[2], ds[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int at = half * 2 + e;
      p[e] = j + e < left_keys ? expf(scores[at] * a.scale - s.lse[h]) : 0.0f;
      ds[e] = p[e] * (dp[at] - s.along[h]) * a.scale;
    }
    *reinterpret_cast<__nv_bfloat162*>(s.p + h * kKeysRow + j) = __floats2bfloat162_rn(p[0], p[1]);
    *reinterpret_cast<__nv_bfloat162*>(s.ds + h * kKeysRow + j) =
        __floats2bfloat162_rn(ds[0], ds[1]);
  }
}

// A warp: 16 keys and 72 columns, of which it computes 16 at a time.
__device__ void write_keys(const Attention& a, const Shared& s, int first, int left_keys) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int key = warp % 2 * 16, begin = warp / 2 * (kWidth / 8), end = begin + kWidth / 8;
#pragma unroll 1
  for (int column = begin; column < end; column += 16) {
    Sums sums[2] = {};
#pragma unroll
    for (int h = 0; h < kHeads; h += 16) {
      std::uint32_t x[4], b[4];
      load_matrices<true>(x, turned_left(s.ds + h * kKeysRow + key, kKeysRow));
      load_matrices<true>(b, turned_right(s.q + h * kRow + column, kRow));
      multiply_16(sums[0], x, b[0], b[1]);
      multiply_16(sums[1], x, b[2], b[3]);
      if (column >= kLatent) continue;
      load_matrices<true>(x, turned_left(s.p + h * kKeysRow + key, kKeysRow));
      load_matrices<true>(b, turned_right(s.g + h * kLatentRow + column, kLatentRow));
      multiply_16(sums[0], x, b[0], b[1]);
      multiply_16(sums[1], x, b[2], b[3]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // two rows of two blocks
      const int row = key + lane / 4 + i % 2 * 8, c = column + i / 2 * 8 + lane % 4 * 2;
      if (row >= left_keys || c >= end) continue;
      float2& to =
          *reinterpret_cast<float2*>(a.dkeys + (blockIdx.x * a.k + first + row) * kWidth + c);
      float2 sum = {sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1]};
      if (a.first_head > 0) sum.x += to.x, sum.y += to.y;
      to = sum;
    }
  }
}

__global__ void __launch_bounds__(kBlock, 1) queries_back_512(const Attention a) {
  extern __shared__ __align__(128) std::byte bytes[];
  Shared& s = *reinterpret_cast<Shared*>(bytes);
  int count = 0;  // keys
  for (std::int64_t j = 0; j < a.k; j += kBlock) {
    const std::int64_t at = j + threadIdx.x;
    count += __syncthreads_count(at < a.k && a.indices[blockIdx.x * a.k + at] >= 0);
  }
  if (count == 0) return;
  start_copy(a, s, 0, count);
  load_heads(a, s);

  constexpr int kColumns = kWidth / 4, kPairs = kColumns / 16;  // of a warp's 16 heads
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int head = warp % 4 * 16, column = warp / 4 * kColumns;
  Sums dq[kPairs][2] = {};
  for (int first = 0; first < count; first += kKeys) {
    __pipeline_wait_prior(0);
    __syncthreads();  // the keys are there, and the weights before have been read
    weigh_keys(a, s, count - first);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kKeys; j += 16) {
      std::uint32_t x[4], b[4];
      load_matrices<false>(x, left(s.ds + head * kKeysRow + j, kKeysRow));
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        load_matrices<true>(b, turned_right(s.keys + j * kRow + column + i * 16, kRow));
        multiply_16(dq[i][0], x, b[0], b[1]);
        multiply_16(dq[i][1], x, b[2], b[3]);
      }
    }
    __syncthreads();  // the keys have been read
    if (first + kKeys < count) start_copy(a, s, first + kKeys, count);
    write_keys(a, s, first, count - first);
  }
#pragma unroll
  for (int i = 0; i < kPairs * 2; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int h = a.first_head + head + lane / 4 + e / 2 * 8;
      const int d = column + i * 8 + lane % 4 * 2 + e % 2;
      if (h >= a.heads) continue;
      (d < kLatent ? a.dq_latent.row(blockIdx.x, h)[d]
                   : a.dq_rope.row(blockIdx.x, h)[d - kLatent]) += dq[i / 2][i % 2][e];
    }
  }
}

bool is_multiple_of_16(std::int64_t n) { return n % 16 == 0; }

}  // namespace

bool is_queries_back_512(const SparseMlaBackArgs& args, const Arch& arch) {
  const LatentCache& kv = args.op.kv;
  return args.op.q_latent.dtype == DType::kBF16 && kv.format == LatentFormat::kBF16 &&
         kv.latent_dim == kLatent && kv.rope_dim == kRope &&
         is_multiple_of_16(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(kv.data))) &&
         is_multiple_of_16(kv.stride()) && static_cast<int>(sizeof(Shared)) <= arch.shared_bytes;
}

void launch_queries_back_512(const SparseMlaBackArgs& args, const Tensor& dkeys, const Gpu& gpu) {
  Attention a = {.q_latent = heads_of<const bf16>(args.op.q_latent),
                 .q_rope = heads_of<const bf16>(args.op.q_rope),
                 .out = heads_of<const bf16>(args.op.out),
                 .dout = heads_of<const float>(args.dout),
                 .dq_latent = heads_of<float>(args.dq_latent),
                 .dq_rope = heads_of<float>(args.dq_rope),
                 .lse = args.op.lse.ptr<float>(),
                 .indices = args.op.indices.ptr<std::int32_t>(),
                 .k = args.op.indices.dim(1),
                 .heads = static_cast<int>(args.dout.dim(1)),
                 .first_head = 0,
                 .scale = args.op.softmax_scale,
                 .rows = latent_rows(args.op.kv),
                 .dkeys = dkeys.ptr<float>()};
  // A failure shows as the launch's error.
  cudaFuncSetAttribute(queries_back_512, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(sizeof(Shared)));
  for (; a.first_head < a.heads; a.first_head += kHeads) {
    queries_back_512<<<static_cast<unsigned>(args.dout.dim(0)), kBlock, sizeof(Shared),
                       gpu.stream>>>(a);
  }
}

}  // namespace glint::cuda
