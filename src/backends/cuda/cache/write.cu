// write_latent, write_index: a thread block for each token.
#include "backends/cuda/cache/cache.h"
#include "backends/cuda/cache/write.cuh"
#include "backends/cuda/dependent_launch.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 128;

template <class X>
struct Source {
  const X* x;
  std::int64_t stride;
};

template <class X, class Cache>
__global__ void __launch_bounds__(kBlock)
    write_latent_kernel(Source<X> latents, Source<X> ropes, const std::int32_t* slots,
                        LatentRows rows) {
  let_next_start();
  const std::int64_t slot = slots[blockIdx.x];
  if (slot < 0) return;
  const X* latent = latents.x + blockIdx.x * latents.stride;
  const X* k_rope = ropes.x + blockIdx.x * ropes.stride;
  std::byte* row = rows.row(slot);
  write_latent_row<kBlock, Cache>(latent, k_rope, rows, row);
}

template <class X, class Cache>
__global__ void __launch_bounds__(kBlock)
    write_index_kernel(const X* keys, const std::int32_t* slots, IndexRows rows) {
  let_next_start();
  const std::int64_t slot = slots[blockIdx.x];
  if (slot < 0) return;
  const X* key = keys + blockIdx.x * std::int64_t{rows.dim};
  write_index_row<kBlock, Cache>(key, rows, slot);
}

}  // namespace

void launch_write_latent(const WriteLatentArgs& args, const Gpu& gpu) {
  const auto tokens = static_cast<unsigned>(args.slots.dim(0));
  if (tokens == 0) return;
  with_elements(args.latent, [&]<class X>(X* latent) {
    with_cache_type(args.cache.format, [&]<class Cache>(Cache) {
      launch_in_order(
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
      launch_in_order(write_index_kernel<X, Cache>, {.grid = dim3(tokens), .block = kBlock}, gpu,
                      keys, args.slots.ptr<std::int32_t>(), index_rows(args.cache));
    });
  });
}

}  // namespace glint::cuda
