// The border between gemm.cc and the kernels.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/cuda/elements.h"
#include "backends/cuda/gemm/gemm_desc.h"

namespace glint::cuda {

struct GemmArgs {
  const bf16* x = nullptr;
  std::int64_t x_stride = 0;
  const bf16* weight = nullptr;  // [n, k] dense
  const bf16* up = nullptr;      // likewise, kSiluMul only, where `weight` is the gate
  void* out = nullptr;           // f32 or bf16, as the epilogue says
  std::int64_t out_stride = 0;
  std::int64_t m = 0, n = 0, k = 0;
};

// Defined for each epilogue by one file in inst/. Neither m nor n is 0.
template <Epilogue kEpilogue>
void launch_gemm(const GemmConfig& config, const GemmArgs& args, cudaStream_t stream);

}  // namespace glint::cuda
