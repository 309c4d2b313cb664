// Device ops that move rows or work on single elements, and rope.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/elementwise.h"
#include "ops/rope.h"

namespace glint::cuda {

void launch_embed(const EmbedArgs& args, cudaStream_t stream);
void launch_gather_rows(const GatherRowsArgs& args, cudaStream_t stream);
void launch_add(const AddArgs& args, cudaStream_t stream);
void launch_silu_mul(const SiluMulArgs& args, cudaStream_t stream);
void launch_rope(const RopeArgs& args, cudaStream_t stream);

}  // namespace glint::cuda
