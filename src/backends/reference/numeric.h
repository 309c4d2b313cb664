// What the reference's ops share: reading tensors as f32, and sums in f64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/kv_layout.h"

namespace glint::reference {

// All elements of `x` (f32 or bf16, strided or not) in row-major order.
std::vector<float> floats_of(const Tensor& x);

// sum_i a[i] * b[i]: eight interleaved partial sums, an order that depends on `n` only.
double dot(const float* a, const float* b, std::int64_t n);

// Element `i` of an index tensor, which must lie in [0, limit).
std::int64_t index_at(const Tensor& indices, std::int64_t i, std::int64_t limit, const char* what);

// Cache row `slot` as latent_dim + rope_dim values. fp8 latents are code * scale, rounded to bf16
// when `activations` is.
void read_latent(const LatentCache& cache, std::int64_t slot, DType activations, float* out);

// Index key `slot` as `dim` values. For kFp8 these are the codes' values, without the key's scale.
void read_index_key(const IndexCache& cache, std::int64_t slot, float* out);

}  // namespace glint::reference
