// The cache rows that attention_in writes, each behind its product in one launch.
#pragma once

#include "backends/cuda/gpu.h"
#include "ops/blocks/blocks.h"

namespace glint::cuda {

// For each token, with the roundings of these ops one by one:
//
//   latent cache <- rms_norm(kv[0 : latent]), rope(kv[latent : ])
struct LatentInputsArgs {
  const AttentionInArgs& block;
  Tensor kv = {};  // [T, latent + rope] bf16
};
void launch_latent_inputs(const LatentInputsArgs& args, const Gpu& gpu);

//   index cache <- rope(layer_norm(k))
struct KeyInputsArgs {
  const AttentionInArgs& block;
  Tensor k = {};  // [T, Di] bf16
};
void launch_key_inputs(const KeyInputsArgs& args, const Gpu& gpu);

// Whether they compute it: bf16 activations, caches in bf16 or fp8, rows that they hold.
bool is_attention_inputs(const AttentionInArgs& args, bool with_index);

}  // namespace glint::cuda
