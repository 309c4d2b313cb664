// The cluster of a thread block, or where there are none, the thread block alone.
#pragma once

#include <cooperative_groups.h>

#include "backends/cuda/arch.cuh"

namespace glint::cuda {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
struct Cluster {
  __device__ unsigned num_blocks() const { return 1; }
  __device__ unsigned block_rank() const { return 0; }
  __device__ void sync() const { __syncthreads(); }
  template <class T>
  __device__ T* map_shared_rank(T* own, unsigned) const {
    return own;
  }
};
__device__ inline Cluster this_cluster() { return {}; }
#else
using Cluster = cooperative_groups::cluster_group;
__device__ inline Cluster this_cluster() { return cooperative_groups::this_cluster(); }
#endif

}  // namespace glint::cuda
