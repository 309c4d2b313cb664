// Parts of both kernels of the indexer's scores.
#pragma once

#include <cuda_fp8.h>

#include <type_traits>

#include "backends/cuda/attention/top_keys.cuh"
#include "backends/cuda/linear/codes.cuh"
#include "backends/cuda/reduce.cuh"

namespace glint::cuda {

inline constexpr int kIndexDim = kStep, kMostIndexHeads = 32;  // of a query
inline constexpr int kHeadBlocks = kMostIndexHeads / 8;

// Two keys of a lane, as they are in the cache.
template <WeightFormat kFormat, class Key>
struct LaneKeys {
  Codes<kFormat> codes[2];
  float scales[2];

  __device__ void load(const KeyScores& s, int half, std::int64_t slot) {
    const auto* row = reinterpret_cast<const std::byte*>(s.keys.key<Key>(slot));
    scales[half] = std::is_same_v<Key, std::uint8_t> ? *s.keys.scale(slot) : 1.0f;
#pragma unroll
    for (int u = 0; u < Codes<kFormat>::kVectors; ++u) {
      codes[half].v[u] = load_once(row + 16 * Codes<kFormat>::unit(u, threadIdx.x % 4));
    }
  }
};

// Four neighbouring columns of a query.
struct alignas(8) Columns {
  __nv_bfloat162 pairs[2];
};
// The scale of a query whose columns a warp has.
template <class Key>
__device__ float scale_of(const Columns& q) {
  if constexpr (!std::is_same_v<Key, std::uint8_t>) return 1;
  const __nv_bfloat162 largest = __hmax2(__habs2(q.pairs[0]), __habs2(q.pairs[1]));
  return index_scale(warp_max(fmaxf(as_float(largest.x), as_float(largest.y))));
}
// Two columns as they are, or as the fp8 codes of this scale say.
template <class Key>
__device__ __nv_bfloat162 quantized(__nv_bfloat162 pair, float scale) {
  if constexpr (std::is_same_v<Key, std::uint8_t>) {
    const float2 v = __bfloat1622float2(pair);
    const float inverse = 1.0f / scale;  // of a power of two: exact
    const __nv_fp8x2_storage_t codes =
        __nv_cvt_float2_to_fp8x2({v.x * inverse, v.y * inverse}, __NV_SATFINITE, __NV_E4M3);
    const __half2 values = __nv_cvt_fp8x2_to_halfraw2(codes, __NV_E4M3);
    pair = __float22bfloat162_rn(__half22float2(values));
  }
  return pair;
}

// The scores of a lane's two keys before their scales: `dots` has two heads of each, for each eight
// heads, whose weights weights_of(j) gives.
//
// Order of summation, for every score: the columns of a dot product as codes.cuh has them, then
// the heads of a lane, then the lanes a tree.
template <class Weights>
__device__ __forceinline__ void sum_heads(const float* dots, const Weights& weights_of,
                                          float (&scores)[2]) {
#pragma unroll
  for (int j = 0; j < kHeadBlocks; ++j) {
    const float2 w = weights_of(j);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      scores[half] += w.x * fmaxf(0.0f, dots[j * 4 + half * 2]);
      scores[half] += w.y * fmaxf(0.0f, dots[j * 4 + half * 2 + 1]);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    scores[half] += __shfl_xor_sync(kAllLanes, scores[half], 1);
    scores[half] += __shfl_xor_sync(kAllLanes, scores[half], 2);
  }
}

}  // namespace glint::cuda
