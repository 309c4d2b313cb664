// embed and silu_mul on the device; silu_mul of bf16 activations.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/elementwise.h"

namespace glint::cuda {

void launch_embed(const EmbedArgs& args, cudaStream_t stream);
void launch_silu_mul(const SiluMulArgs& args, cudaStream_t stream);

}  // namespace glint::cuda
