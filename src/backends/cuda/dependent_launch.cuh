// Launches in whose first part the kernel before still runs: what starting a kernel takes, and what
// it can read without waiting, overlaps with the end of the one before it.
//
// Such a kernel, of launch_dependent() and launch_small(), calls wait_for_inputs() before it reads
// what an earlier kernel wrote, and before it writes anything. Every kernel may call
// let_next_start(), at any time: the next one still waits for its end, and so for the ends of those
// before it. One that lets the next start after its own inputs are there lets it read those before
// it waits, past what L1 may hold (__threadfence()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "backends/cuda/arch.cuh"
#include "backends/cuda/gpu.h"

namespace glint::cuda {

// On devices without such launches these do nothing, and kernels follow each other.
__device__ inline void wait_for_inputs() {
  if constexpr (kArch.clusters) asm volatile("griddepcontrol.wait;" ::: "memory");
}
__device__ inline void let_next_start() {
  if constexpr (kArch.clusters) asm volatile("griddepcontrol.launch_dependents;");
}

struct LaunchShape {
  dim3 grid;
  unsigned block = 0;
  std::size_t shared = 0;  // bytes
  unsigned cluster = 1;    // thread blocks of one, along x
};

// Starts a kernel, while the one before it still runs if `overlaps`. An error shows as the
// launch's.
template <class... Params, class... Args>
void start_kernel(void (*kernel)(Params...), const LaunchShape& shape, const Gpu& gpu,
                  bool overlaps, Args&&... args) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = overlaps && gpu.overlaps;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = shape.cluster;
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = dim3(shape.block);
  config.dynamicSmemBytes = shape.shared;
  config.stream = gpu.stream;
  config.attrs = attributes;
  config.numAttrs = !gpu.arch.clusters ? 0 : shape.cluster > 1 ? 2 : 1;
  cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...);
}

// For short kernels whose start takes as long as they do: products of few rows, and attention.
template <class... Params, class... Args>
void launch_dependent(void (*kernel)(Params...), const LaunchShape& shape, const Gpu& gpu,
                      Args&&... args) {
  start_kernel(kernel, shape, gpu, true, std::forward<Args>(args)...);
}
// For kernels whose size is that of the batch: many thread blocks that wait take room from those
// that work, so only few do.
template <class... Params, class... Args>
void launch_small(void (*kernel)(Params...), const LaunchShape& shape, const Gpu& gpu,
                  Args&&... args) {
  constexpr std::int64_t kFew = 256;  // threads a multiprocessor
  const std::int64_t blocks = std::int64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
  start_kernel(kernel, shape, gpu, blocks * shape.block <= kFew * gpu.num_sms,
               std::forward<Args>(args)...);
}
// For the others.
template <class... Params, class... Args>
void launch_in_order(void (*kernel)(Params...), const LaunchShape& shape, const Gpu& gpu,
                     Args&&... args) {
  start_kernel(kernel, shape, gpu, false, std::forward<Args>(args)...);
}

}  // namespace glint::cuda
