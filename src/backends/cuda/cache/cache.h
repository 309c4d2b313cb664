// write_latent and write_index on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/kv_write.h"

namespace glint::cuda {

void launch_write_latent(const WriteLatentArgs& args, cudaStream_t stream);
void launch_write_index(const WriteIndexArgs& args, cudaStream_t stream);

}  // namespace glint::cuda
