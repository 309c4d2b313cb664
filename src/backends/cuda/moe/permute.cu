// permute: a warp for each expert, which looks at all pairs: first to count those of the experts
// before its own, then to place its own, in order.
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/moe/moe.h"
#include "backends/cuda/reduce.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 128;

struct Pairs {
  const std::int32_t* ids;  // [count]
  std::int64_t count, k;
  std::int32_t num_experts;
  std::int32_t *rows, *offsets, *places;
};

// The number of pairs of experts before `expert`.
__device__ std::int32_t count_before(const Pairs& p, std::int32_t expert) {
  std::int32_t count = 0;
  for (std::int64_t i = threadIdx.x % kWarp; i < p.count; i += kWarp) {
    count += p.ids[i] >= 0 && p.ids[i] < expert;
  }
  return warp_reduce(count, [](std::int32_t a, std::int32_t b) { return a + b; });
}

// The warp of expert num_experts only ends the offsets, and handles the pairs of no expert.
__global__ void __launch_bounds__(kBlock) permute_kernel(const Pairs p) {
  let_next_start();
  const int lane = threadIdx.x % kWarp;
  const std::int32_t expert =
      static_cast<std::int32_t>(blockIdx.x * (kBlock / kWarp) + threadIdx.x / kWarp);
  if (expert > p.num_experts) return;
  std::int32_t place = count_before(p, expert);
  if (lane == 0) p.offsets[expert] = place;
  if (expert == p.num_experts) {
    for (std::int64_t i = lane; i < p.count; i += kWarp) {
      if (p.ids[i] < 0) p.places[i] = -1;
    }
    return;
  }
  for (std::int64_t first = 0; first < p.count; first += kWarp) {
    const std::int64_t i = first + lane;
    const bool mine = i < p.count && p.ids[i] == expert;
    const unsigned all = __ballot_sync(kAllLanes, mine);
    if (mine) {
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
  constexpr int kWarps = kBlock / kWarp;
  const int blocks = (pairs.num_experts + 1 + kWarps - 1) / kWarps;
  launch_in_order(permute_kernel, {.grid = dim3(static_cast<unsigned>(blocks)), .block = kBlock},
                  gpu, pairs);
}

}  // namespace glint::cuda
