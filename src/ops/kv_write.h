// write_latent, write_index: what a token leaves in the caches, in the formats of kv_layout.h.
//
// Both are exact: every backend writes the reference's bytes (ops/kv_rows.h).
#pragma once

#include "ops/cost.h"
#include "ops/kv_layout.h"

namespace glint {

//   cache.row(slots[t]) = latent[t], k_rope[t]       nothing where slots[t] is -1
//
// cast to the format of the cache; in kFp8, 128 latents each are e4m3(latent / scale) with
// scale = max(max |latent| / 448, FLT_MIN) (latent_scale in tensor/fp8.h), and k_rope is bf16.
struct WriteLatentArgs {
  Tensor latent = {};  // [T, latent_dim] f32 or bf16; rows may be strided
  Tensor k_rope = {};  // [T, rope_dim] dtype of latent, already rotated; rows may be strided
  Tensor slots = {};   // [T] i32: distinct, or -1
  LatentCache cache = {};
};
void check(const WriteLatentArgs& args);
OpCost cost(const WriteLatentArgs& args);

//   cache.key(slots[t]) = k[t]                       nothing where slots[t] is -1
//
// cast to the format of the cache; in kFp8 it is e4m3(k[t] / scale), where scale is
// max(max |k[t]|, 1e-4) / 448 rounded up to a power of two (index_scale in tensor/fp8.h).
struct WriteIndexArgs {
  Tensor k = {};      // [T, dim] f32 or bf16
  Tensor slots = {};  // [T] i32: distinct, or -1
  IndexCache cache = {};
};
void check(const WriteIndexArgs& args);
OpCost cost(const WriteIndexArgs& args);

}  // namespace glint
