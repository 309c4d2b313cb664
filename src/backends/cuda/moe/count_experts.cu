// count_experts: a thread for each choice. Sums of integers do not depend on the order of threads.
#include "backends/cuda/moe/moe.h"

namespace glint::cuda {
namespace {

constexpr int kBlock = 256;

__global__ void __launch_bounds__(kBlock)
    count_experts_kernel(const std::int32_t* ids, std::int64_t of_layer, std::int64_t num_experts,
                         std::int32_t* counts) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (i >= of_layer) return;
  const std::int32_t id = ids[blockIdx.y * of_layer + i];
  if (id >= 0) atomicAdd(counts + blockIdx.y * num_experts + id, 1);
}

}  // namespace

void launch_count_experts(const CountExpertsArgs& args, const Gpu& gpu) {
  const std::int64_t layers = args.counts.dim(0), of_layer = args.ids.size() / layers;
  if (of_layer == 0) return;
  const dim3 blocks(static_cast<unsigned>((of_layer + kBlock - 1) / kBlock),
                    static_cast<unsigned>(layers));
  count_experts_kernel<<<blocks, kBlock, 0, gpu.stream>>>(
      args.ids.ptr<std::int32_t>(), of_layer, args.counts.dim(1), args.counts.ptr<std::int32_t>());
}

}  // namespace glint::cuda
