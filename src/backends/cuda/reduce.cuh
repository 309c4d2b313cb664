// Sums and maxima over the threads of a warp or a block, in an order that the number of threads
// fixes; and ranks, by which the best of some values are found.
#pragma once

#include <cmath>
#include <cstdint>

namespace glint::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

// The result is in every lane.
template <class T, class Op>
__device__ T warp_reduce(T value, Op op) {
#pragma unroll
  for (int mask = kWarp / 2; mask > 0; mask /= 2) {
    value = op(value, __shfl_xor_sync(kAllLanes, value, mask));
  }
  return value;
}
__device__ inline float warp_sum(float value) {
  return warp_reduce(value, [](float a, float b) { return a + b; });
}
__device__ inline int warp_sum(int value) { return __reduce_add_sync(kAllLanes, value); }
// NaN counts as nothing, as in std::max(0, NaN).
__device__ inline float warp_max(float value) {
  return warp_reduce(value, [](float a, float b) { return fmaxf(a, b); });
}

// The sum of the values of all lanes up to each.
__device__ inline int warp_prefix_sum(int value) {
#pragma unroll
  for (int d = 1; d < kWarp; d *= 2) {
    const int other = __shfl_up_sync(kAllLanes, value, d);
    if (static_cast<int>(threadIdx.x % kWarp) >= d) value += other;
  }
  return value;
}

// The result is in every thread of a block of kBlock threads, all of which must call it.
template <int kBlock, class T, class Op>
__device__ T block_reduce(T value, Op op) {
  __shared__ T partial[kBlock / kWarp];
  value = warp_reduce(value, op);
  __syncthreads();  // what an earlier call left has been read
  if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = value;
  __syncthreads();
  T all = partial[0];
#pragma unroll
  for (int warp = 1; warp < kBlock / kWarp; ++warp) all = op(all, partial[warp]);
  return all;
}
template <int kBlock>
__device__ float block_sum(float value) {
  return block_reduce<kBlock>(value, [](float a, float b) { return a + b; });
}
template <int kBlock>
__device__ float block_max(float value) {
  return block_reduce<kBlock>(value, [](float a, float b) { return fmaxf(a, b); });
}

// Order of (value, index) pairs: the larger value has the larger rank, then the smaller index.
// -0.0 equals 0.0, NaN counts as -infinity; no rank is 0.
using Rank = unsigned long long;
inline constexpr Rank kNoRank = 0;

__device__ inline Rank rank_of(float value, std::uint32_t index) {
  if (isnan(value)) value = -INFINITY;
  const std::uint32_t bits = __float_as_uint(value + 0.0f);  // -0.0 + 0.0 is 0.0
  const std::uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return Rank{ordered} << 32 | ~index;
}
template <int kBlock>
__device__ Rank block_best(Rank rank) {
  return block_reduce<kBlock>(rank, [](Rank a, Rank b) { return a > b ? a : b; });
}
__device__ inline std::uint32_t index_of(Rank rank) { return ~static_cast<std::uint32_t>(rank); }

}  // namespace glint::cuda
