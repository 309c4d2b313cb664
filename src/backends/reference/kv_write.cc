#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/reference/numeric.h"
#include "backends/reference/reference_ops.h"
#include "tensor/fp8.h"

namespace glint {

using namespace reference;

namespace {

// `n` values as T at `out`, which need not be aligned.
template <class T>
void store(const float* values, std::int64_t n, std::byte* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T value = from_float<T>(values[i]);
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

float largest_magnitude(const float* values, std::int64_t n) {
  float amax = 0;
  for (std::int64_t i = 0; i < n; ++i) amax = std::max(amax, std::fabs(values[i]));
  return amax;
}

void store_e4m3(const float* values, std::int64_t n, float scale, std::byte* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = std::byte{float_to_e4m3(values[i] / scale)};
}

void write_latent_row(const LatentCache& cache, const float* latent, const float* k_rope,
                      std::byte* row) {
  const int dim = cache.latent_dim, rope = cache.rope_dim;
  switch (cache.format) {
    case LatentFormat::kF32:
      store<float>(latent, dim, row);
      return store<float>(k_rope, rope, row + 4 * dim);
    case LatentFormat::kBF16:
      store<BF16>(latent, dim, row);
      return store<BF16>(k_rope, rope, row + 2 * dim);
    case LatentFormat::kFp8:
      break;
  }
  const int groups = (dim + 127) / 128;
  for (int g = 0; g < groups; ++g) {
    const int begin = g * 128, count = std::min(128, dim - begin);
    const float scale = latent_scale(largest_magnitude(latent + begin, count));
    store_e4m3(latent + begin, count, scale, row + begin);
    store<float>(&scale, 1, row + dim + 4 * g);
  }
  store<BF16>(k_rope, rope, row + dim + 4 * groups);
}

}  // namespace

void ReferenceOps::write_latent(const WriteLatentArgs& args) {
  check(args);
  for (std::int64_t t = 0; t < args.slots.dim(0); ++t) {
    const std::int64_t slot = index_at(args.slots, t, args.cache.num_slots, "slot");
    write_latent_row(args.cache, floats_of(args.latent.slice(0, t, 1)).data(),
                     floats_of(args.k_rope.slice(0, t, 1)).data(), args.cache.row(slot));
  }
}

void ReferenceOps::write_index(const WriteIndexArgs& args) {
  check(args);
  const IndexCache& cache = args.cache;
  for (std::int64_t t = 0; t < args.slots.dim(0); ++t) {
    const std::int64_t slot = index_at(args.slots, t, cache.num_slots, "slot");
    const std::vector<float> k = floats_of(args.k.slice(0, t, 1));
    if (cache.format == IndexFormat::kF32) {
      store<float>(k.data(), cache.dim, cache.key(slot));
    } else if (cache.format == IndexFormat::kBF16) {
      store<BF16>(k.data(), cache.dim, cache.key(slot));
    } else {
      const float scale = index_scale(largest_magnitude(k.data(), cache.dim));
      store_e4m3(k.data(), cache.dim, scale, cache.key(slot));
      store<float>(&scale, 1, cache.scale(slot));
    }
  }
}

}  // namespace glint
