// sparse_mla for the sizes of GLM-5, on the tensor cores.
#pragma once

#include "backends/cuda/gpu.h"
#include "ops/sparse_mla.h"

namespace glint::cuda {

// Whether the kernel computes it. That depends on types, dims and what every model aligns.
bool is_sparse_mla_512(const SparseMlaArgs& args);
// `scores`: kScoreBytes of scratch.
void launch_sparse_mla_512(const SparseMlaArgs& args, float* scores, const Gpu& gpu);

}  // namespace glint::cuda
