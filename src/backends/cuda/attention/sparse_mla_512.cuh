// Shared by the kernels of sparse_mla for GLM-5's sizes: how keys come to shared memory, and the
// order of all sums, which all keep.
//
// Keys are cut into segments of kSegment by their position in `indices`. Every eighth segment is of
// one part, which a thread block computes kKeys keys at a time: scores as the sums of four quarters
// of the width, softmax with a lane for each key, then the sums over keys. The parts are added up
// in order. So the order of every sum is that of `indices`.
#pragma once

#include <cuda_fp16.h>

#include "backends/cuda/attention/choose_attention.h"
#include "backends/cuda/attention/sparse_mla_512.h"
#include "backends/cuda/barrier.cuh"
#include "backends/cuda/cache/rows.cuh"
#include "backends/cuda/cluster.cuh"
#include "backends/cuda/linear/codes.cuh"
#include "backends/cuda/load_matrices.cuh"
#include "backends/cuda/reduce.cuh"

namespace glint::cuda::mla512 {

inline constexpr int kBlock = kHeads * kWarp;
static_assert(kKeys == kWarp);
inline constexpr int kQuarter = kWidth / kQuarters / 16;               // instructions
inline constexpr int kLatentBlocks = kLatent / 16 / (kBlock / kWarp);  // of 16, of a warp

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

__device__ inline std::uint32_t pair_at(const bf16* p) {
  return *reinterpret_cast<const std::uint32_t*>(p);
}

// How many arrive at a stage's barrier, warps or threads; and rows that a warp copies.
inline constexpr int kArrivals = kHasCopyEngine ? kBlock / kWarp : kBlock;
inline constexpr int kRowsOfWarp = kKeys / (kBlock / kWarp);

// Starts copying the kKeys rows of `slots`, each to kFp8Row bytes or kRow bf16. The first is there;
// others may be none, and bring anything finite.
template <bool kFp8>
__device__ void start_copy(const Attention& a, const std::int32_t* slots, std::byte* stage,
                           std::uint64_t* barrier) {
  constexpr int kFrom = kFp8 ? kFp8Row : kWidth * 2, kRowBytes = kFp8 ? kFp8Row : kRow * 2;
  const auto row_of = [&](int key) {
    const std::int32_t slot = slots[key] < 0 ? slots[0] : slots[key];
    return a.rows + slot / kPageSize * a.page_stride + slot % kPageSize * kFrom;
  };
  const int lane = threadIdx.x % kWarp;
  if constexpr (kHasCopyEngine) {
    const int key = static_cast<int>(threadIdx.x) / kWarp * kRowsOfWarp + lane;
    if (lane == 0) arrive_expecting(barrier, kRowsOfWarp * kFrom);
    if (lane < kRowsOfWarp) copy_bulk(stage + key * kRowBytes, row_of(key), kFrom, barrier);
  } else {
    constexpr int kLanes = kBlock / kKeys, kUnits = kFrom / 16;
    const int key = static_cast<int>(threadIdx.x) / kLanes, first = lane % kLanes;
    const std::byte* const from = row_of(key);
    std::byte* const to = stage + key * kRowBytes;
#pragma unroll
    for (int i = 0; i < (kUnits + kLanes - 1) / kLanes; ++i) {
      const int unit = first + i * kLanes;
      if (kUnits % kLanes != 0 && unit >= kUnits) break;
      copy_16(to + unit * 16, from + unit * 16, true);
    }
    arrive_after_copies(barrier);
  }
}

// Codes kPair * 2 and the next of a word times their scale.
template <int kPair>
__device__ std::uint32_t decode_pair(std::uint32_t codes, float scale) {
  float2 values;
  if constexpr (kArch.capability >= 89) {  // f16 has all that e4m3 has
    std::uint32_t pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;"
        : "=r"(pair)
        : "h"(static_cast<std::uint16_t>(codes >> 16 * kPair)));
    __half2 halves;
    memcpy(&halves, &pair, sizeof(pair));
    values = __half22float2(halves);
  } else {
    const std::uint32_t pair = Codes<WeightFormat::kFp8Block>::decoded<kPair>(codes);
    values = {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  }
  const __nv_bfloat162 both = __floats2bfloat162_rn(values.x * scale, values.y * scale);
  std::uint32_t bits;
  memcpy(&bits, &both, sizeof(bits));
  return bits;
}

// Eight codes times their scale.
__device__ inline void decode_8(uint2 codes, float scale, bf16* to) {
  *reinterpret_cast<uint4*>(to) = {decode_pair<0>(codes.x, scale), decode_pair<1>(codes.x, scale),
                                   decode_pair<0>(codes.y, scale), decode_pair<1>(codes.y, scale)};
}

// Decodes kKeys fp8 rows, kRowsOfWarp a warp.
__device__ inline void decode(const std::byte* from, bf16* to) {
  const int lane = threadIdx.x % kWarp;
  const int first = static_cast<int>(threadIdx.x) / kWarp * kRowsOfWarp;
  constexpr int kEach = kLatent / kWarp / 8;  // times eight codes of a row, of a lane
#pragma unroll
  for (int i = 0; i < kRowsOfWarp * kEach; i += 4) {
    uint2 codes[4];
    float scales[4];
    const auto key = [&](int j) { return first + (i + j) / kEach; };
    const auto latent = [&](int j) { return ((i + j) % kEach * kWarp + lane) * 8; };
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::byte* const row = from + key(j) * kFp8Row;
      codes[j] = *reinterpret_cast<const uint2*>(row + latent(j));
      scales[j] = *reinterpret_cast<const float*>(row + kLatent + latent(j) / kScaleGroup * 4);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) decode_8(codes[j], scales[j], to + key(j) * kRow + latent(j));
  }
  constexpr int kUnits = kRope * 2 / 16;
  static_assert(kRowsOfWarp * kUnits == kWarp);
  const int key = first + lane / kUnits, unit = lane % kUnits;
  *reinterpret_cast<uint4*>(to + key * kRow + kLatent + unit * 8) = *reinterpret_cast<const uint4*>(
      from + key * kFp8Row + kLatent + kLatent / kScaleGroup * 4 + unit * 16);
}

// The softmax of a column so far, in every lane.
struct Softmax {
  float largest = -INFINITY, sum = 0;
};

// A key's weight, and what sums so far count.
struct Weighed {
  bf16 p;
  float shrink;
};

// Takes a column's scores of a tile in, a lane for each key; `most` is the largest. A tile of no
// keys changes nothing.
__device__ inline Weighed weigh(Softmax& s, float score, float most, bool is_key) {
  const float largest = fmaxf(s.largest, most);
  const float shrink = largest == -INFINITY ? 1.0f : expf(s.largest - largest);  // no key yet
  const bf16 p = __float2bfloat16_rn(is_key ? expf(score - largest) : 0.0f);
  s.largest = largest;
  s.sum = s.sum * shrink + warp_sum(as_float(p));
  return {p, shrink};
}

// The score of a column and the lane's key, whose quarters are in
// shared.scores[kQuarters][kKeys][].
template <class Shared>
__device__ float score_of(const Attention& a, const Shared& shared, int column) {
  float dot = 0;
#pragma unroll
  for (int i = 0; i < kQuarters; ++i) dot += shared.scores[i][threadIdx.x % kWarp][column];
  return dot * a.scale;
}

// The same from the scores to shared.p[][kKeys] and shared.shrink[] of the columns.
template <class Shared>
__device__ void weigh(Softmax& s, const Attention& a, Shared& shared, int column, bool is_key) {
  const float score = is_key ? score_of(a, shared, column) : -INFINITY;
  const Weighed weighed = weigh(s, score, warp_max(score), is_key);
  shared.p[column][threadIdx.x % kWarp] = weighed.p;
  if (threadIdx.x % kWarp == 0) shared.shrink[column] = weighed.shrink;
}

// The queries as a warp of the scores needs them: of head lane / 4, a quarter of the width.
__device__ inline void load_queries(const Attention& a, std::int64_t token,
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

template <class Shared>
__device__ void score(const bf16* keys, const std::uint32_t (&q)[kQuarter][2], Shared& shared) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int quarter = warp % kQuarters, first = warp / kQuarters * 16;
  float sums[4] = {};
#pragma unroll
  for (int i = 0; i < kQuarter; ++i) {
    std::uint32_t x[4];
    load_matrices<false>(
        x, keys + (first + lane % 16) * kRow + (quarter * kQuarter + i) * 16 + lane / 16 * 8);
    multiply_16(sums, x, q[i][0], q[i][1]);
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    shared.scores[quarter][first + lane / 4 + e / 2 * 8][lane % 4 * 2 + e % 2] = sums[e];
  }
}

// sums[latents of the warp, heads] = sums * shrink + keys^T * p, of rows of kStride and kBlocks
// sixteens of latents a warp.
template <int kStride, int kBlocks>
__device__ void add_keys(float (&sums)[kBlocks][4], const bf16* keys,
                         const bf16 (&p)[kHeads][kKeys + 8], const float (&shrink)[kHeads]) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const float own[2] = {shrink[lane % 4 * 2], shrink[lane % 4 * 2 + 1]};
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[i][e] *= own[e % 2];
  }
#pragma unroll
  for (int k = 0; k < kKeys; k += 16) {
    const bf16* const of_head = &p[lane / 4][k + lane % 4 * 2];
    const std::uint32_t b0 = pair_at(of_head), b1 = pair_at(of_head + 8);
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      // Transposed: matrices of 8 keys by 8 latents; first the latents' halves, then the keys'.
      const int latent = (warp * kBlocks + i) * 16 + lane / 8 % 2 * 8;
      std::uint32_t x[4];
      load_matrices<true>(x, keys + (k + lane / 16 * 8 + lane % 8) * kStride + latent);
      multiply_16(sums[i], x, b0, b1);
    }
  }
}
template <class Shared>
__device__ void add_keys(float (&sums)[kLatentBlocks][4], const bf16* keys, const Shared& shared) {
  add_keys<kRow>(sums, keys, shared.p, shared.shrink);
}

// A softmax so far takes in a part: what sums so far count then, and what the part's do. The order
// of parts is the order of their keys, whoever has them.
struct PartWeight {
  float keep, weight;
};
__device__ inline PartWeight take_part(Softmax& all, float largest, float sum) {
  if (largest == -INFINITY) return {1, 0};  // no key
  const float both = fmaxf(all.largest, largest);
  const PartWeight part = {all.largest == -INFINITY ? 0.0f : expf(all.largest - both),
                           expf(largest - both)};
  all.largest = both;
  all.sum = fmaf(part.weight, sum, __fmul_rn(all.sum, part.keep));
  return part;
}
__device__ inline bool counts(PartWeight part) { return part.weight != 0 || part.keep != 1; }
__device__ inline float add_part(float sum, PartWeight part, float more) {
  return !counts(part) ? sum : fmaf(part.weight, more, __fmul_rn(sum, part.keep));
}

// Results d and d + 1 of a block's head c, whose weights' sum is `sum`.
__device__ inline void write_pair(const Attention& a, std::int64_t token, int c, int d, float2 out,
                                  float sum) {
  if (sum > 0) out.x /= sum, out.y /= sum;
  const std::int64_t head = std::int64_t{blockIdx.y} * kHeads + c;
  *reinterpret_cast<__nv_bfloat162*>(a.out + token * a.out_strides[0] + head * a.out_strides[1] +
                                     d) = __floats2bfloat162_rn(out.x, out.y);
}

// The parts of a cluster's thread blocks, kParts of each, and how they are added up.
template <int kParts>
struct Parts {
  float largest[kParts][kHeads], sum[kParts][kHeads];  // of this thread block
  float all_largest[kMostParts][kHeads], all_sums[kMostParts][kHeads];
  PartWeight weights[kMostParts][kHeads];
};

// Adds up the parts in order, and writes kLatents latents from `first` on. sums_of(part)[head] are
// the sums of this thread block's part. The cluster's thread blocks meet before and after.
template <int kParts, int kLatents, class SumsOf>
__device__ void add_parts(const Cluster& cluster, const Attention& a, std::int64_t token, int first,
                          Parts<kParts>& shared, const SumsOf& sums_of) {
  const int blocks = static_cast<int>(cluster.num_blocks()),
            rank = static_cast<int>(cluster.block_rank());
  const int parts = blocks * kParts;
  cluster.sync();
  // A thread for each head of a part.
  const int head = threadIdx.x % kHeads, part = threadIdx.x / kHeads;
  if (part < kMostParts) {
    const int block = part / kParts, own = part % kParts;
    const bool there = part < parts;
    shared.all_largest[part][head] =
        there ? *cluster.map_shared_rank(&shared.largest[own][head], block) : -INFINITY;
    shared.all_sums[part][head] =
        there ? *cluster.map_shared_rank(&shared.sum[own][head], block) : 0.0f;
  }
  __syncthreads();
  if (part < kMostParts) {
    Softmax before;
#pragma unroll
    for (int j = 0; j < kMostParts; ++j) {
      if (j < part) before.largest = fmaxf(before.largest, shared.all_largest[j][head]);
    }
    shared.weights[part][head] = take_part(before, shared.all_largest[part][head], 0);
  }
  __syncthreads();
  constexpr int kPairs = kLatents / 2;
  for (int i = rank * kBlock + threadIdx.x; i < kHeads * kPairs; i += blocks * kBlock) {
    const int c = i / kPairs, d = i % kPairs * 2;
    const std::int64_t own_head = std::int64_t{blockIdx.y} * kHeads + c;
    if (own_head >= a.heads) continue;
    float2 more[kMostParts];
#pragma unroll
    for (int j = 0; j < kMostParts; ++j) {
      const float* const at = &sums_of(j % kParts)[c][d];
      if (j < parts) {
        more[j] = *reinterpret_cast<const float2*>(cluster.map_shared_rank(at, j / kParts));
      }
    }
    float2 out = {};
    float sum = 0, largest = -INFINITY;
#pragma unroll
    for (int j = 0; j < kMostParts; ++j) {
      const PartWeight weight = shared.weights[j][c];
      if (!counts(weight)) continue;  // also of parts that are not there
      out.x = add_part(out.x, weight, more[j].x), out.y = add_part(out.y, weight, more[j].y);
      sum = add_part(sum, weight, shared.all_sums[j][c]);
      largest = fmaxf(largest, shared.all_largest[j][c]);
    }
    write_pair(a, token, c, first + d, out, sum);
    if (a.lse && first + d == 0) a.lse[token * a.heads + own_head] = largest + logf(sum);
  }
  cluster.meet();  // the others have read this block's sums
}

// Both for at most kMostKeys keys a token, in place of a cluster for each. Where tokens are few:
void launch_few(const Attention& attention, std::int64_t tokens, bool fp8, float* scores,
                const Gpu& gpu);
// By a thread block for each token, where they are many.
void launch_one_block(const Attention& attention, std::int64_t tokens, bool fp8, const Gpu& gpu);

}  // namespace glint::cuda::mla512
