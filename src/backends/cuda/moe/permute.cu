// permute: a thread block for each expert, whose warps look at a stretch of the pairs each: first
// to count those of the experts before and its own, then to place its own, in order.
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/moe/moe.h"
#include "backends/cuda/reduce.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 256, kWarps = kBlock / kWarp;

struct Pairs {
  const std::int32_t* __restrict__ ids;  // [count]
  std::int64_t count, k;
  std::int32_t num_experts;
  std::int32_t *rows, *offsets, *places;
};

// The block of expert num_experts only ends the offsets, and handles the pairs of no expert.
__global__ void __launch_bounds__(kBlock) permute_kernel(const Pairs p) {
  __shared__ std::int32_t lower[kWarps], own[kWarps];
  let_next_start();
  wait_for_inputs();
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const auto expert = static_cast<std::int32_t>(blockIdx.x);
  const bool is_last = expert == p.num_experts;
  const std::int64_t each = (p.count + kBlock - 1) / kBlock * kWarp;  // pairs of a warp
  const std::int64_t begin = min(warp * each, p.count), end = min(begin + each, p.count);
  std::int32_t of_lower = 0, of_own = 0;
#pragma unroll 4
  for (std::int64_t i = begin + lane; i < end; i += kWarp) {
    const std::int32_t id = p.ids[i];
    of_lower += id >= 0 && id < expert, of_own += id == expert;
  }
  const auto add = [](std::int32_t a, std::int32_t b) { return a + b; };
  of_lower = warp_reduce(of_lower, add), of_own = warp_reduce(of_own, add);
  if (lane == 0) lower[warp] = of_lower, own[warp] = of_own;
  __syncthreads();
  std::int32_t place = 0;
  for (int w = 0; w < kWarps; ++w) place += lower[w];
  if (threadIdx.x == 0) p.offsets[expert] = place;
  for (int w = 0; w < warp; ++w) place += own[w];
  for (std::int64_t first = begin; first < end; first += kWarp) {
    const std::int64_t i = first + lane;
    const std::int32_t id = i < end ? p.ids[i] : p.num_experts;
    if (is_last) {
      if (id < 0) p.places[i] = -1;
      continue;
    }
    const unsigned all = __ballot_sync(kAllLanes, id == expert);
    if (id == expert) {
      const std::int32_t at = place + __popc(all & ((1u << lane) - 1));
      p.places[i] = at;
      p.rows[at] = static_cast<std::int32_t>(i / p.k);
    }
    place += __popc(all);
  }
}

}  // namespace

void launch_permute(const PermuteArgs& args, const Gpu& gpu) {
  const Pairs pairs = {.ids = args.ids.ptr<std::int32_t>(),
                       .count = args.ids.size(),
                       .k = args.ids.dim(1),
                       .num_experts = static_cast<std::int32_t>(args.offsets.dim(0) - 1),
                       .rows = args.rows.ptr<std::int32_t>(),
                       .offsets = args.offsets.ptr<std::int32_t>(),
                       .places = args.places.ptr<std::int32_t>()};
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(pairs.num_experts + 1)),
                             .block = kBlock};
  launch_small(permute_kernel, shape, gpu, pairs);
}

}  // namespace glint::cuda
