// route, permute and combine on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/moe.h"

namespace glint::cuda {

void launch_route(const RouteArgs& args, cudaStream_t stream);
void launch_permute(const PermuteArgs& args, cudaStream_t stream);
void launch_combine(const CombineArgs& args, cudaStream_t stream);

}  // namespace glint::cuda
