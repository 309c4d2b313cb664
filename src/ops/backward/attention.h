// Backward passes of write_latent and sparse_mla (ops/backward.h has the rules).
//
// dcache is the gradient of a layer's latent cache: f32, a row a slot, whatever the cache's format.
// The casts to that format count as identities; caches in fp8 are not trained with.
#pragma once

#include "ops/kv_write.h"
#include "ops/sparse_mla.h"

namespace glint {

//   dlatent[t] += dcache[slots[t]][0 : latent];  dk_rope[t] += the rest;  dcache[slots[t]] = 0
//
// nothing where slots[t] is -1.
struct WriteLatentBackArgs {
  WriteLatentArgs op = {};
  Tensor dcache = {};   // [num_slots, latent + rope] f32, dense; the rows that were written: zeroed
  Tensor dlatent = {};  // [T, latent] f32, added to
  Tensor dk_rope = {};  // [T, rope] f32, added to
};
void check(const WriteLatentBackArgs& args);
OpCost cost(const WriteLatentBackArgs& args);

// With c and r the latent and the rotary part of the cache row of key j:
//
//   p[h,j] = exp(s[h,j] - lse[h]);  D[h] = sum_d g[h,d] out[h,d]
//   ds     = p (dot(g[h], c) - D) * softmax_scale
//   dq_latent[h] += sum_j ds c;     dq_rope[h] += sum_j ds r
//   dcache[slot] += sum_h ds q_latent[h] + p g[h]  (latent),  ds q_rope[h]  (rope)
//
// A latent is key and value: it gets both terms. dcache is summed over blocks of tokens that do not
// depend on the threads. A token without keys, whose lse is -infinity, adds nothing. Under bf16
// queries g, p and ds may be rounded to bf16 before they are multiplied.
//
// Source: Dao, FlashAttention-2 (arXiv 2307.08691), section 3.1.2, on the absorbed form.
struct SparseMlaBackArgs {
  SparseMlaArgs op = {};  // op.lse is needed
  Tensor dout = {};       // [T, H, latent] f32, read and zeroed
  Tensor dq_latent = {};  // [T, H, latent] f32, added to
  Tensor dq_rope = {};    // [T, H, rope] f32, added to
  Tensor dcache = {};     // [num_slots, latent + rope] f32, dense, added to
};
void check(const SparseMlaBackArgs& args);
OpCost cost(const SparseMlaBackArgs& args);

inline constexpr OpTolerance kSparseMlaBackTolerance = {.f32 = 2e-5, .bf16 = 4e-3};

}  // namespace glint
