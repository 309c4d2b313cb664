// The rows that write_latent and write_index leave, by all threads of a block. The bytes are those
// of ops/kv_rows.h: divisions and roundings here are IEEE's.
#pragma once

#include <type_traits>

#include "backends/cuda/cache/rows.cuh"
#include "backends/cuda/reduce.cuh"

namespace glint::cuda {

template <int kBlock, class X>
__device__ void write_latent_fp8(const X* latent, const X* k_rope, const LatentRows& rows,
                                 std::byte* row) {
  static_assert(kBlock >= kScaleGroup);  // a thread for each
  for (int begin = 0; begin < rows.latent_dim; begin += kScaleGroup) {
    const int i = begin + static_cast<int>(threadIdx.x);
    const bool there = threadIdx.x < kScaleGroup && i < rows.latent_dim;
    const float value = there ? as_float(latent[i]) : 0.0f;
    const float scale = latent_scale(block_max<kBlock>(fabsf(value)));
    if (there) row[i] = std::byte{float_to_e4m3(value / scale)};
    if (threadIdx.x == 0) store_unaligned(row + rows.latent_dim + 4 * (begin / kScaleGroup), scale);
  }
  const int groups = (rows.latent_dim + kScaleGroup - 1) / kScaleGroup;
  std::byte* rope = row + rows.latent_dim + 4 * groups;
  for (int b = threadIdx.x; b < 2 * rows.rope_dim; b += kBlock) {  // bytes: they lie anywhere
    const unsigned bits = __bfloat16_as_ushort(rounded<bf16>(as_float(k_rope[b / 2])));
    rope[b] = static_cast<std::byte>(bits >> (b % 2 * 8) & 0xff);
  }
}

template <int kBlock, class Cache, class X>
__device__ void write_latent_row(const X* latent, const X* k_rope, const LatentRows& rows,
                                 std::byte* row) {
  if constexpr (std::is_same_v<Cache, std::uint8_t>) {
    write_latent_fp8<kBlock>(latent, k_rope, rows, row);
  } else {
    Cache* to = reinterpret_cast<Cache*>(row);
    for (int i = threadIdx.x; i < rows.latent_dim; i += kBlock) {
      to[i] = rounded<Cache>(as_float(latent[i]));
    }
    for (int i = threadIdx.x; i < rows.rope_dim; i += kBlock) {
      to[rows.latent_dim + i] = rounded<Cache>(as_float(k_rope[i]));
    }
  }
}

template <int kBlock, class Cache, class X>
__device__ void write_index_row(const X* key, const IndexRows& rows, std::int64_t slot) {
  Cache* to = rows.key<Cache>(slot);
  if constexpr (std::is_same_v<Cache, std::uint8_t>) {
    float largest = 0;
    for (int i = threadIdx.x; i < rows.dim; i += kBlock) {
      largest = fmaxf(largest, fabsf(as_float(key[i])));
    }
    const float scale = index_scale(block_max<kBlock>(largest));
    for (int i = threadIdx.x; i < rows.dim; i += kBlock) {
      to[i] = float_to_e4m3(as_float(key[i]) / scale);
    }
    if (threadIdx.x == 0) *rows.scale(slot) = scale;
  } else {
    for (int i = threadIdx.x; i < rows.dim; i += kBlock) to[i] = rounded<Cache>(as_float(key[i]));
  }
}

}  // namespace glint::cuda
