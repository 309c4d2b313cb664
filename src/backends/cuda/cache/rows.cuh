// The caches' rows as kernels see them: what LatentCache and IndexCache say, as numbers.
#pragma once

#include <cstring>

#include "backends/cuda/vec.cuh"
#include "ops/kv_layout.h"
#include "tensor/fp8.h"

namespace glint::cuda {

inline constexpr int kScaleGroup = 128;  // latents of an fp8 row that share a scale

// Where a key of a sequence lies, whose pages are these.
__device__ inline std::int32_t slot_in(const std::int32_t* pages, unsigned key) {
  return pages[key / kPageSize] * kPageSize + static_cast<std::int32_t>(key % kPageSize);
}

struct LatentRows {
  std::byte* data;
  std::int64_t stride, row_bytes;  // of pages; of rows
  int latent_dim, rope_dim;

  __device__ std::byte* row(std::int64_t slot) const {
    return data + slot / kPageSize * stride + slot % kPageSize * row_bytes;
  }
};
inline LatentRows latent_rows(const LatentCache& cache) {
  return {cache.data, cache.stride(), cache.row_bytes(), cache.latent_dim, cache.rope_dim};
}

struct IndexRows {
  std::byte* data;
  std::int64_t stride;  // of pages
  int dim;

  template <class T>
  __device__ T* key(std::int64_t slot) const {
    return reinterpret_cast<T*>(data + slot / kPageSize * stride) + slot % kPageSize * dim;
  }
  // fp8 only: after the codes of the page.
  __device__ float* scale(std::int64_t slot) const {
    return reinterpret_cast<float*>(data + slot / kPageSize * stride + kPageSize * dim) +
           slot % kPageSize;
  }
};
inline IndexRows index_rows(const IndexCache& cache) {
  return {cache.data, cache.stride(), cache.dim};
}

// Calls f(T{}) with the element of the format's rows: float, bf16, or std::uint8_t for fp8.
template <class Format, class F>
void with_cache_type(Format format, F&& f) {
  switch (format) {
    case Format::kF32:
      return f(float{});
    case Format::kBF16:
      return f(bf16{});
    case Format::kFp8:
      return f(std::uint8_t{});
  }
}

// Fields of fp8 rows lie at any byte.
template <class T>
__device__ T load_unaligned(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <class T>
__device__ void store_unaligned(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace glint::cuda
