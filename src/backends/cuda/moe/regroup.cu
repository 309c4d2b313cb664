// regroup: a thread block for each expert, which adds up where its rows begin.
#include "backends/cuda/moe/moe.h"

namespace glint::cuda {
namespace {

constexpr int kBlock = 128;

struct Received {
  const std::int32_t* offsets;  // of the first expert; rows of `stride`
  std::int64_t stride, num_rows;
  int num_ranks, num_experts;
  std::int32_t *rows, *groups, *places;
};

// The block of expert num_experts ends the groups and marks the places that no row has.
__global__ void __launch_bounds__(kBlock) regroup_kernel(const Received r) {
  const int expert = static_cast<int>(blockIdx.x);
  std::int32_t place = 0;  // rows of the experts before this one
  for (int s = 0; s < r.num_ranks; ++s) {
    const std::int32_t* const offsets = r.offsets + s * r.stride;
    place += offsets[expert] - offsets[0];
  }
  if (threadIdx.x == 0) r.groups[expert] = place;
  if (expert == r.num_experts) {
    for (std::int64_t i = place + threadIdx.x; i < r.num_rows; i += kBlock) r.places[i] = -1;
    return;
  }
  std::int32_t received = 0;  // rows of the ranks before s
  for (int s = 0; s < r.num_ranks; ++s) {
    const std::int32_t* const offsets = r.offsets + s * r.stride;
    const std::int32_t count = offsets[expert + 1] - offsets[expert];
    const std::int32_t begin = received + offsets[expert] - offsets[0];
    for (int i = threadIdx.x; i < count; i += kBlock) {
      r.rows[place + i] = begin + i;
      r.places[begin + i] = place + i;
    }
    place += count;
    received += offsets[r.num_experts] - offsets[0];
  }
}

}  // namespace

void launch_regroup(const RegroupArgs& args, const Gpu& gpu) {
  const Received received = {.offsets = args.offsets.ptr<std::int32_t>() + args.first,
                             .stride = args.offsets.dim(1),
                             .num_rows = args.rows.dim(0),
                             .num_ranks = static_cast<int>(args.offsets.dim(0)),
                             .num_experts = static_cast<int>(args.groups.dim(0) - 1),
                             .rows = args.rows.ptr<std::int32_t>(),
                             .groups = args.groups.ptr<std::int32_t>(),
                             .places = args.places.ptr<std::int32_t>()};
  regroup_kernel<<<static_cast<unsigned>(received.num_experts + 1), kBlock, 0, gpu.stream>>>(
      received);
}

}  // namespace glint::cuda
