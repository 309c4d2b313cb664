// write_latent, write_index: a thread block for each token. The bytes are those of ops/kv_rows.h:
// divisions and roundings here are IEEE's.
#include <type_traits>

#include "backends/cuda/cache/cache.h"
#include "backends/cuda/cache/rows.cuh"
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/reduce.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 128;

template <class X>
struct Source {
  const X* x;
  std::int64_t stride;
};

template <class X>
__device__ void write_latent_fp8(const X* latent, const X* k_rope, LatentRows rows,
                                 std::byte* row) {
  for (int begin = 0; begin < rows.latent_dim; begin += kScaleGroup) {
    static_assert(kBlock == kScaleGroup);  // a thread for each
    const int i = begin + static_cast<int>(threadIdx.x);
    const float value = i < rows.latent_dim ? as_float(latent[i]) : 0.0f;
    const float scale = latent_scale(block_max<kBlock>(fabsf(value)));
    if (i < rows.latent_dim) row[i] = std::byte{float_to_e4m3(value / scale)};
    if (threadIdx.x == 0) store_unaligned(row + rows.latent_dim + 4 * (begin / kScaleGroup), scale);
  }
  const int groups = (rows.latent_dim + kScaleGroup - 1) / kScaleGroup;
  std::byte* rope = row + rows.latent_dim + 4 * groups;
  for (int b = threadIdx.x; b < 2 * rows.rope_dim; b += kBlock) {  // bytes: they lie anywhere
    const unsigned bits = __bfloat16_as_ushort(rounded<bf16>(as_float(k_rope[b / 2])));
    rope[b] = static_cast<std::byte>(bits >> (b % 2 * 8) & 0xff);
  }
}

template <class X, class Cache>
__global__ void __launch_bounds__(kBlock)
    write_latent_kernel(Source<X> latents, Source<X> ropes, const std::int32_t* slots,
                        LatentRows rows) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t slot = slots[blockIdx.x];
  if (slot < 0) return;
  const X* latent = latents.x + blockIdx.x * latents.stride;
  const X* k_rope = ropes.x + blockIdx.x * ropes.stride;
  std::byte* row = rows.row(slot);
  if constexpr (std::is_same_v<Cache, std::uint8_t>) {
    write_latent_fp8(latent, k_rope, rows, row);
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

template <class X, class Cache>
__global__ void __launch_bounds__(kBlock)
    write_index_kernel(const X* keys, const std::int32_t* slots, IndexRows rows) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t slot = slots[blockIdx.x];
  if (slot < 0) return;
  const X* key = keys + blockIdx.x * std::int64_t{rows.dim};
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

}  // namespace

void launch_write_latent(const WriteLatentArgs& args, const Gpu& gpu) {
  const auto tokens = static_cast<unsigned>(args.slots.dim(0));
  if (tokens == 0) return;
  with_elements(args.latent, [&]<class X>(X* latent) {
    with_cache_type(args.cache.format, [&]<class Cache>(Cache) {
      launch_dependent(
          write_latent_kernel<X, Cache>, {.grid = dim3(tokens), .block = kBlock}, gpu,
          Source<X>{latent, args.latent.stride[0]},
          Source<X>{reinterpret_cast<const X*>(args.k_rope.data), args.k_rope.stride[0]},
          args.slots.ptr<std::int32_t>(), latent_rows(args.cache));
    });
  });
}

void launch_write_index(const WriteIndexArgs& args, const Gpu& gpu) {
  const auto tokens = static_cast<unsigned>(args.slots.dim(0));
  if (tokens == 0) return;
  with_elements(args.k, [&]<class X>(X* keys) {
    with_cache_type(args.cache.format, [&]<class Cache>(Cache) {
      launch_dependent(write_index_kernel<X, Cache>, {.grid = dim3(tokens), .block = kBlock}, gpu,
                       keys, args.slots.ptr<std::int32_t>(), index_rows(args.cache));
    });
  });
}

}  // namespace glint::cuda
