// select_keys and sparse_mla on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/select_keys.h"
#include "ops/sparse_mla.h"

namespace glint::cuda {

void launch_select_keys(const SelectKeysArgs& args, cudaStream_t stream);
void launch_sparse_mla(const SparseMlaArgs& args, cudaStream_t stream);

}  // namespace glint::cuda
