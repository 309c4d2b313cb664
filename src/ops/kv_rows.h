// Rows of the caches as f32: the definition of the cache formats, scalar; kernels are checked
// against it. For host memory.
#pragma once

#include "ops/kv_layout.h"

namespace glint {

// Row `slot` from `latent` [latent_dim] and `k_rope` [rope_dim].
void write_latent_row(const LatentCache& cache, std::int64_t slot, const float* latent,
                      const float* k_rope);

// Row `slot` as [latent_dim + rope_dim]; fp8 latents are code * scale, unrounded.
void read_latent_row(const LatentCache& cache, std::int64_t slot, float* out);

// Key `slot` from `key` [dim].
void write_index_key(const IndexCache& cache, std::int64_t slot, const float* key);

// Key `slot` without its scale: the values of the codes [dim]. Returns the scale, 1 if the format
// has none.
float read_index_key(const IndexCache& cache, std::int64_t slot, float* out);

}  // namespace glint
