// Products of bf16 activations with bf16 weights.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/linear.h"

namespace glint::cuda {

void launch_linear(const LinearArgs& args, int num_sms, cudaStream_t stream);

// out = silu(gate(x)) * up(x), as two linears and silu_mul round it, in one kernel.
struct GateUpArgs {
  Tensor x = {};              // [T, K] bf16; rows may be strided
  Weight gate = {}, up = {};  // [N, K]
  Tensor out = {};            // [T, N] bf16, written
};
void launch_gate_up(const GateUpArgs& args, int num_sms, cudaStream_t stream);

}  // namespace glint::cuda
