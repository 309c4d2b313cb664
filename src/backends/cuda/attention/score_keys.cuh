// Parts of both kernels of the indexer's scores.
#pragma once

#include <type_traits>

#include "backends/cuda/attention/top_keys.cuh"
#include "backends/cuda/linear/codes.cuh"

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

}  // namespace glint::cuda
