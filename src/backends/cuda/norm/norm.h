// rms_norm and layer_norm on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/norm.h"

namespace glint::cuda {

void launch_rms_norm(const RmsNormArgs& args, cudaStream_t stream);
void launch_layer_norm(const LayerNormArgs& args, cudaStream_t stream);

}  // namespace glint::cuda
