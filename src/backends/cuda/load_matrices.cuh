// Operands of the tensor cores from shared memory.
#pragma once

#include <cstdint>

#include "backends/cuda/barrier.cuh"
#include "backends/cuda/elements.h"

namespace glint::cuda {

// Four matrices of 8 x 8: lane l gives the address of row l % 8 of matrix l / 8, and gets of each
// its elements (l / 4, l % 4 * 2) and the next one of the row; of the transpose if kTransposed.
template <bool kTransposed>
__device__ void load_matrices(std::uint32_t (&r)[4], const bf16* address) {
  const std::uint32_t from = shared_address(address);
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
  }
}

}  // namespace glint::cuda
