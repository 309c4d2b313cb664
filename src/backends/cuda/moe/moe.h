// route, permute, regroup and combine on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/moe.h"

namespace glint::cuda {

inline constexpr std::int64_t kMostExperts = 4096;  // that route holds

void launch_route(const RouteArgs& args, cudaStream_t stream);
void launch_permute(const PermuteArgs& args, cudaStream_t stream);
void launch_regroup(const RegroupArgs& args, cudaStream_t stream);
void launch_combine(const CombineArgs& args, cudaStream_t stream);

}  // namespace glint::cuda
