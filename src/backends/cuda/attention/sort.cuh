// Sorts what lies in shared memory.
#pragma once

#include "backends/cuda/reduce.cuh"

namespace glint::cuda {

// Sorts values[0 .. count), largest first; `count` is a power of two. By all threads of a block,
// which see the result on return. Batcher's bitonic network.
template <int kBlock>
__device__ void sort_descending(Rank* values, int count) {
  for (int length = 2; length <= count; length *= 2) {
    for (int apart = length / 2; apart > 0; apart /= 2) {
      __syncthreads();
      for (int pair = threadIdx.x; pair < count / 2; pair += kBlock) {
        const int i = pair / apart * apart * 2 + pair % apart, j = i + apart;
        const bool descending = (i & length) == 0;
        const Rank a = values[i], b = values[j];
        if ((a < b) == descending) values[i] = b, values[j] = a;
      }
    }
  }
  __syncthreads();
}

}  // namespace glint::cuda
