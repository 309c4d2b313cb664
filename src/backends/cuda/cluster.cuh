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
  __device__ void meet() const { __syncthreads(); }
  template <class T>
  __device__ T* map_shared_rank(T* own, unsigned) const {
    return own;
  }
};
#else
struct Cluster {
  __device__ unsigned num_blocks() const { return group().num_blocks(); }
  __device__ unsigned block_rank() const { return group().block_rank(); }
  // All threads meet, and see what the others wrote. That waits for stores to the device's memory
  // too: some 1,200 turns behind one, else 450.
  __device__ void sync() const { group().sync(); }
  // All threads meet, in 100 turns, and see nothing new: what others have read of a thread block's
  // shared memory, and used, may then be overwritten, or go.
  __device__ void meet() const {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::
                     : "memory");
  }
  template <class T>
  __device__ T* map_shared_rank(T* own, unsigned rank) const {
    return group().map_shared_rank(own, static_cast<int>(rank));
  }

 private:
  __device__ static cooperative_groups::cluster_group group() {
    return cooperative_groups::this_cluster();
  }
};
#endif
__device__ inline Cluster this_cluster() { return {}; }

}  // namespace glint::cuda
