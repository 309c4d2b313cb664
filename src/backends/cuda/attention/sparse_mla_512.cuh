// Shared by the kernels of sparse_mla for GLM-5's sizes: how keys come to shared memory, and the
// order of all sums, which both keep.
//
// Keys are cut into segments of kSegment by their position in `indices`. A thread block of a
// cluster computes every eighth segment, kKeys keys at a time: scores as the sums of four quarters
// of the width, softmax with a lane for each key, then the sums over keys. The thread blocks'
// parts are added up in order. So the order of every sum is that of `indices`.
#pragma once

#include "backends/cuda/attention/sparse_mla_512.h"
#include "backends/cuda/cache/rows.cuh"
#include "backends/cuda/cluster.cuh"
#include "backends/cuda/linear/codes.cuh"
#include "backends/cuda/load_matrices.cuh"
#include "backends/cuda/reduce.cuh"

namespace glint::cuda::mla512 {

inline constexpr int kLatent = 512, kRope = 64, kWidth = kLatent + kRope;
inline constexpr int kHeads = 8, kBlock = kHeads * kWarp;
inline constexpr int kKeys = kWarp, kSegment = 256, kMostBlocks = 8;  // of a cluster
constexpr int most_blocks(const Arch& arch) { return arch.clusters ? kMostBlocks : 1; }

// Warps of the scores: 16 keys and a quarter of the width each.
inline constexpr int kQuarters = 4, kQuarter = kWidth / kQuarters / 16;  // instructions
inline constexpr int kRow = kWidth + 8;  // bf16 of a row in shared memory: padded against conflicts
inline constexpr int kFp8Row = 656;      // bytes in the cache
inline constexpr int kLatentBlocks = kLatent / 16 / (kBlock / kWarp);  // of 16, of a warp

struct Attention {
  const bf16 *q_latent, *q_rope;
  std::int64_t q_latent_strides[2], q_rope_strides[2];  // of tokens and heads
  bf16* out;
  std::int64_t out_strides[2];
  float* lse;  // [T, H]; null: not wanted
  const std::int32_t* indices;
  std::int64_t k;
  std::int64_t tokens;
  bool with_groups;  // those that have one list are computed by their own kernel
  int heads;
  float scale;
  const std::byte* rows;
  std::int64_t page_stride;
};

__device__ inline void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1) {
  multiply_16(sums, a[0], a[1], a[2], a[3], b0, b1);
}

__device__ inline std::uint32_t pair_at(const bf16* p) {
  return *reinterpret_cast<const std::uint32_t*>(p);
}

// Starts copying the kKeys rows of `slots`, each to kFp8Row bytes or kRow bf16; zeros for none.
template <bool kFp8>
__device__ void start_copy(const Attention& a, const std::int32_t* slots, std::byte* stage) {
  constexpr int kFrom = kFp8 ? kFp8Row : kWidth * 2, kUnits = kFrom / 16;
  constexpr int kRowBytes = kFp8 ? kFp8Row : kRow * 2;
  for (int i = threadIdx.x; i < kKeys * kUnits; i += kBlock) {
    const int key = i / kUnits, unit = i % kUnits;
    const std::int32_t slot = slots[key];
    std::byte* const to = stage + key * kRowBytes + unit * 16;
    const std::int32_t page = max(slot, 0) / kPageSize, row = max(slot, 0) % kPageSize;
    const std::byte* const from = a.rows + page * a.page_stride + row * kFrom + unit * 16;
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(slot < 0 ? 0 : 16)
                 : "memory");
  }
}

// Two codes times their scale.
__device__ inline std::uint32_t decode_pair(std::uint32_t codes, float scale) {
  const std::uint32_t pair = Codes<WeightFormat::kFp8Block>::decoded(codes);
  const __nv_bfloat162 both = __floats2bfloat162_rn(__uint_as_float(pair << 16) * scale,
                                                    __uint_as_float(pair & 0xffff0000u) * scale);
  std::uint32_t bits;
  memcpy(&bits, &both, sizeof(bits));
  return bits;
}

// Decodes kKeys fp8 rows, sixteen bytes at a time.
__device__ inline void decode(const std::byte* from, bf16* to) {
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

// The softmax of a column so far, in every lane.
struct Softmax {
  float largest = -INFINITY, sum = 0;
};

// Takes a column's scores of a tile in, a lane for each key, and leaves their weights, and what
// sums so far count. `shared` has scores[kQuarters][kKeys][], p[][kKeys] and shrink[] of the
// columns.
template <class Shared>
__device__ void weigh(Softmax& s, const Attention& a, Shared& shared, int column, bool is_key) {
  const int key = threadIdx.x % kWarp;
  float dot = 0;
#pragma unroll
  for (int i = 0; i < kQuarters; ++i) dot += shared.scores[i][key][column];
  const float score = is_key ? dot * a.scale : -INFINITY;
  const float largest = fmaxf(s.largest, warp_max(score));
  const float shrink = largest == -INFINITY ? 1.0f : expf(s.largest - largest);  // no key yet
  const bf16 p = __float2bfloat16_rn(is_key ? expf(score - largest) : 0.0f);
  s.largest = largest;
  s.sum = s.sum * shrink + warp_sum(as_float(p));
  shared.p[column][key] = p;
  if (key == 0) shared.shrink[column] = shrink;
}

// Groups of kTokens tokens whose rows of indices agree as far as they go, and end before k: tokens
// at the start of a prompt. Other kernels compute them.
inline constexpr int kTokens = 8;

// The same in every thread of the cluster, all of which call it. `flag`: a word of shared memory.
__device__ inline bool have_one_list(const Cluster& cluster, const Attention& a, std::int64_t group,
                                     int& flag) {
  const std::int64_t first = group * kTokens;
  if (first + kTokens > a.tokens) return false;
  const std::int32_t* const rows = a.indices + first * a.k;
  const std::int32_t* const longest = rows + (kTokens - 1) * a.k;
  if (longest[a.k - 1] >= 0) return false;
  bool same = true;
  for (int i = 0; i < kTokens; ++i) same &= rows[i * a.k] == longest[0] && rows[i * a.k] >= 0;
  if (!same) return false;
  const int blocks = static_cast<int>(cluster.num_blocks()), step = blocks * kBlock;
  for (std::int64_t j = cluster.block_rank() * kBlock + threadIdx.x; j < a.k; j += step) {
    const std::int32_t slot = longest[j];
    for (int i = 0; i < kTokens - 1; ++i) {
      const std::int32_t other = rows[i * a.k + j];
      same &= other == slot || other < 0;
    }
  }
  same = __syncthreads_and(same);
  if (threadIdx.x == 0) flag = same;
  cluster.sync();
  for (int b = 0; b < blocks; ++b) same &= *cluster.map_shared_rank(&flag, b) != 0;
  cluster.sync();  // the others have read this block's flag
  return same;
}

// How the parts of a softmax that the thread blocks of a cluster have are added up: what each part
// counts, and the sum of the weights.
template <int kColumns>
struct PartWeights {
  float of[kMostBlocks][kColumns], sum[kColumns];
};

// The parts that the thread blocks of a cluster have, of a column of sums each for a head of a
// token, added up in the order of the blocks and written: column c is that of head
// blockIdx.y * kHeads + c % kHeads of token `first` + c / kHeads. `sums`: [kColumns, kLatent].
template <int kColumns>
__device__ void add_parts(const Cluster& cluster, const Attention& a, std::int64_t first,
                          const float* largest_of, const float* sum_of, const float* sums,
                          PartWeights<kColumns>& weights) {
  const int blocks = static_cast<int>(cluster.num_blocks());
  const int rank = static_cast<int>(cluster.block_rank());
  cluster.sync();
  for (int c = threadIdx.x; c < kColumns; c += kBlock) {
    float of[kMostBlocks], largest = -INFINITY, sum = 0;
#pragma unroll
    for (int b = 0; b < kMostBlocks; ++b) {
      of[b] = b < blocks ? *cluster.map_shared_rank(&largest_of[c], b) : -INFINITY;
      largest = fmaxf(largest, of[b]);
    }
#pragma unroll
    for (int b = 0; b < kMostBlocks; ++b) {
      const float weight = of[b] == -INFINITY ? 0.0f : expf(of[b] - largest);
      weights.of[b][c] = weight;
      if (weight != 0) sum = fmaf(weight, *cluster.map_shared_rank(&sum_of[c], b), sum);
    }
    weights.sum[c] = sum;
    const std::int64_t head = blockIdx.y * kHeads + c % kHeads, token = first + c / kHeads;
    if (a.lse && rank == 0 && head < a.heads) {
      a.lse[token * a.heads + head] = largest + logf(sum);
    }
  }
  __syncthreads();
  constexpr int kPairs = kLatent / 2;
  for (int i = rank * kBlock + threadIdx.x; i < kColumns * kPairs; i += blocks * kBlock) {
    const int c = i / kPairs, d = i % kPairs * 2;
    const std::int64_t head = blockIdx.y * kHeads + c % kHeads, token = first + c / kHeads;
    if (head >= a.heads) continue;
    float2 out = {};
#pragma unroll
    for (int b = 0; b < kMostBlocks; ++b) {
      const float weight = weights.of[b][c];
      if (weight == 0) continue;  // also of blocks that are not there
      const float2 part =
          *reinterpret_cast<const float2*>(cluster.map_shared_rank(sums, b) + c * kLatent + d);
      out.x = fmaf(weight, part.x, out.x), out.y = fmaf(weight, part.y, out.y);
    }
    const float sum = weights.sum[c];
    if (sum > 0) out.x /= sum, out.y /= sum;
    *reinterpret_cast<__nv_bfloat162*>(a.out + token * a.out_strides[0] + head * a.out_strides[1] +
                                       d) = __floats2bfloat162_rn(out.x, out.y);
  }
  cluster.sync();  // the others have read this block's sums
}

// Which the launches of one call make: `tokens` / kTokens groups that have one list, and the rest.
void launch_one_list(const Attention& attention, bool fp8, const Gpu& gpu);

}  // namespace glint::cuda::mla512
