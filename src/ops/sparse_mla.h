// sparse_mla: attention of absorbed MLA queries over the keys that the DSA indexer selected.
//
//   s[t,h,j] = softmax_scale * (dot(q_latent[t,h,:], kv(indices[t,j])[0 : latent])
//                               + dot(q_rope[t,h,:], kv(indices[t,j])[latent : latent + rope]))
//   p        = softmax of s over j, ignoring j with indices[t,j] < 0
//   out[t,h] = sum_j p[t,h,j] * kv(indices[t,j])[0 : latent]
//   lse[t,h] = log(sum_j exp(s[t,h,j]))                      natural log
//
// where kv(i) is cache slot i, an fp8 row dequantised (to f32 under f32 activations, to bf16 under
// bf16). One op serves prefill and decode: t runs over the tokens of the whole batch, and causality
// is already in `indices`. When a sequence is shorter than k the indexer returns all its positions,
// so this op is then exact dense attention.
//
// f32 accumulation and softmax; under bf16, p may be rounded to bf16. The order of summation
// depends on the position of the keys in `indices` only, never on T. A token without any valid
// index gets out = 0 and lse = -infinity.
//
// Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1, with W_UK absorbed into the query.
#pragma once

#include "ops/cost.h"
#include "ops/kv_layout.h"

namespace glint {

struct SparseMlaArgs {
  Tensor q_latent = {};  // [T, H, latent] f32 or bf16: q_nope * W_UK; rows may be strided
  Tensor q_rope = {};    // [T, H, rope] same dtype, rotated; may be a slice of larger rows
  LatentCache kv = {};
  Tensor indices = {};      // [T, k] i32: slots, the valid ones first, then -1
  float softmax_scale = 0;  // 1 / sqrt(nope + rope), times mscale^2 under yarn
  Tensor out = {};          // [T, H, latent] dtype of q_latent, written; rows may be strided
  Tensor lse = {};          // [T, H] f32, written; empty if not wanted
};
void check(const SparseMlaArgs& args);
OpCost cost(const SparseMlaArgs& args);  // as if every index were valid
OpCost cost(const SparseMlaArgs& args, const Assume& assume);

inline constexpr OpTolerance kSparseMlaTolerance = {.f32 = 5e-6, .bf16 = 6e-3};

}  // namespace glint
