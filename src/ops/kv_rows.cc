#include "ops/kv_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/ceil_div.h"
#include "tensor/fp8.h"

namespace glint {
namespace {

constexpr int kGroup = 128;  // latents that share a scale

// Cache fields need not be aligned to their element, hence the copies.
template <class T>
void store(const float* values, std::int64_t n, std::byte* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T value = from_float<T>(values[i]);
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

template <class T>
void load(const std::byte* bytes, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    out[i] = to_float(value);
  }
}

void store_e4m3(const float* values, std::int64_t n, float scale, std::byte* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = std::byte{float_to_e4m3(values[i] / scale)};
}

void load_e4m3(const std::byte* bytes, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = e4m3_to_float(static_cast<std::uint8_t>(bytes[i]));
}

}  // namespace

void write_latent_row(const LatentCache& cache, std::int64_t slot, const float* latent,
                      const float* k_rope) {
  const int dim = cache.latent_dim, rope = cache.rope_dim;
  std::byte* row = cache.row(slot);
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
  const int groups = ceil_div(dim, kGroup);
  for (int g = 0; g < groups; ++g) {
    const int begin = g * kGroup, count = std::min(kGroup, dim - begin);
    const float scale = latent_scale(largest_magnitude(latent + begin, count));
    store_e4m3(latent + begin, count, scale, row + begin);
    store<float>(&scale, 1, row + dim + 4 * g);
  }
  store<BF16>(k_rope, rope, row + dim + 4 * groups);
}

void read_latent_row(const LatentCache& cache, std::int64_t slot, float* out) {
  const int dim = cache.latent_dim, rope = cache.rope_dim;
  const std::byte* row = cache.row(slot);
  switch (cache.format) {
    case LatentFormat::kF32:
      return load<float>(row, dim + rope, out);
    case LatentFormat::kBF16:
      return load<BF16>(row, dim + rope, out);
    case LatentFormat::kFp8:
      break;
  }
  const int groups = ceil_div(dim, kGroup);
  std::vector<float> scales(groups);
  load<float>(row + dim, groups, scales.data());
  load_e4m3(row, dim, out);
  for (int i = 0; i < dim; ++i) out[i] *= scales[i / kGroup];
  load<BF16>(row + dim + 4 * groups, rope, out + dim);
}

void write_index_key(const IndexCache& cache, std::int64_t slot, const float* key) {
  switch (cache.format) {
    case IndexFormat::kF32:
      return store<float>(key, cache.dim, cache.key(slot));
    case IndexFormat::kBF16:
      return store<BF16>(key, cache.dim, cache.key(slot));
    case IndexFormat::kFp8:
      break;
  }
  const float scale = index_scale(largest_magnitude(key, cache.dim));
  store_e4m3(key, cache.dim, scale, cache.key(slot));
  store<float>(&scale, 1, cache.scale(slot));
}

float read_index_key(const IndexCache& cache, std::int64_t slot, float* out) {
  switch (cache.format) {
    case IndexFormat::kF32:
      load<float>(cache.key(slot), cache.dim, out);
      return 1;
    case IndexFormat::kBF16:
      load<BF16>(cache.key(slot), cache.dim, out);
      return 1;
    case IndexFormat::kFp8:
      break;
  }
  load_e4m3(cache.key(slot), cache.dim, out);
  float scale;
  load<float>(cache.scale(slot), 1, &scale);
  return scale;
}

}  // namespace glint
