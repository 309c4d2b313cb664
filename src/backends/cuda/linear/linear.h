// Products of any activations with weights of any format on the device. Those of bf16 with bf16
// have kernels of their own: gemm/gemm.h.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/linear.h"

namespace glint::cuda {

void launch_any_linear(const LinearArgs& args, cudaStream_t stream);
void launch_grouped_linear(const GroupedLinearArgs& args, cudaStream_t stream);
void launch_per_head(const PerHeadArgs& args, cudaStream_t stream);

}  // namespace glint::cuda
