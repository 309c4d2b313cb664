// route, permute, regroup and combine on the device.
#pragma once

#include "backends/cuda/gpu.h"
#include "ops/moe.h"

namespace glint::cuda {

inline constexpr std::int64_t kMostExperts = 4096;  // that route holds

void launch_route(const RouteArgs& args, const Gpu& gpu);
void launch_permute(const PermuteArgs& args, const Gpu& gpu);
void launch_regroup(const RegroupArgs& args, const Gpu& gpu);
void launch_combine(const CombineArgs& args, const Gpu& gpu);

}  // namespace glint::cuda
