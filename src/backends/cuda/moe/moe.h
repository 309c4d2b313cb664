// route, pick_copies, count_experts, permute, regroup and combine on the device.
#pragma once

#include "backends/cuda/gpu.h"
#include "ops/moe.h"

namespace glint::cuda {

inline constexpr std::int64_t kMostExperts = 4096;  // that route holds

void launch_route(const RouteArgs& args, const Gpu& gpu);
void launch_pick_copies(const PickCopiesArgs& args, const Gpu& gpu);
void launch_count_experts(const CountExpertsArgs& args, const Gpu& gpu);
void launch_permute(const PermuteArgs& args, const Gpu& gpu);
void launch_regroup(const RegroupArgs& args, const Gpu& gpu);
void launch_combine(const CombineArgs& args, const Gpu& gpu);

//   x += delta, m = bf16(rms_norm(x)), parts[t] = three bf16 whose sum is rms_norm(x)[t] exactly
//
// The router's product with a bf16 weight is then one of bf16, row by row of the parts, and exact
// as it is in f32: 8 bits of each part are the 24 of the norm.
struct RouterInputArgs {
  Tensor x = {};       // [T, D] f32, updated
  Tensor delta = {};   // [T, D] f32 or bf16
  Tensor weight = {};  // [D]
  float eps = 0;
  Tensor m = {};      // [T, D] bf16 written
  Tensor parts = {};  // [3 T, D] bf16 written
};
void launch_router_input(const RouterInputArgs& args, const Gpu& gpu);

// route of the logits of such parts, [3 T, E], whose sums, in order, are the tokens'; and permute
// of its ids.
struct RoutePermuteArgs {
  RouteArgs route = {};
  PermuteArgs permute = {};
};
void launch_route_permute(const RoutePermuteArgs& args, const Gpu& gpu);

}  // namespace glint::cuda
