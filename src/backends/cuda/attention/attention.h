// select_keys and sparse_mla on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.h"
#include "ops/blocks/weights.h"
#include "ops/select_keys.h"
#include "ops/sparse_mla.h"

namespace glint::cuda {

// Whether a thread block can hold what the kernels need of a model of these sizes.
Status supports_select_keys(const AttentionDims& dims);
Status supports_sparse_mla(const AttentionDims& dims);

void launch_select_keys(const SelectKeysArgs& args, cudaStream_t stream);
void launch_sparse_mla(const SparseMlaArgs& args, cudaStream_t stream);

}  // namespace glint::cuda
