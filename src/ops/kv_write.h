// write_latent, write_index: what a token leaves in the caches.
#pragma once

#include "ops/cost.h"
#include "ops/kv_layout.h"

namespace glint {

// cache.row(slots[t]) = latent[t] then k_rope[t], cast or quantised to the cache's format. For kFp8
// each 128 latents get scale = max(amax / 448, FLT_MIN) (latent_scale in tensor/fp8.h), code =
// e4m3(value / scale).
struct WriteLatentArgs {
  Tensor latent = {};  // [T, latent_dim] f32 or bf16; rows may be strided
  Tensor k_rope = {};  // [T, rope_dim] dtype of latent, already rotated; rows may be strided
  Tensor slots = {};   // [T] i32, distinct
  LatentCache cache = {};
};
void check(const WriteLatentArgs& args);
OpCost cost(const WriteLatentArgs& args);

// cache.key(slots[t]) = k[t], cast, or quantised with one power-of-two scale (index_scale in
// tensor/fp8.h).
struct WriteIndexArgs {
  Tensor k = {};      // [T, dim] f32 or bf16
  Tensor slots = {};  // [T] i32, distinct
  IndexCache cache = {};
};
void check(const WriteIndexArgs& args);
OpCost cost(const WriteIndexArgs& args);

// Both are exact: every backend writes the reference's bytes.

}  // namespace glint
