// The middle of attention_in in one launch: what lies between its products.
#pragma once

#include "backends/cuda/gpu.h"
#include "ops/blocks/blocks.h"

namespace glint::cuda {

// For each token
//
//   q            = rms_norm(q)
//   latent cache <- rms_norm(kv[0 : latent]), rope(kv[latent : ])
//   index cache  <- rope(layer_norm(k))                            where there is k
//
// with the roundings of these ops one by one.
struct AttentionInputs {
  const AttentionInArgs& block;
  Tensor q = {};   // [T, q_lora_rank] bf16, updated; rows may be strided
  Tensor kv = {};  // [T, latent + rope] bf16
  Tensor k = {};   // [T, Di] bf16, or empty
};

// Whether the kernel computes it: bf16 activations, caches in bf16 or fp8, rows that it holds.
bool is_attention_inputs(const AttentionInArgs& args, bool with_index);
void launch_attention_inputs(const AttentionInputs& args, const Gpu& gpu);

}  // namespace glint::cuda
