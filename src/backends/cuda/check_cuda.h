// check_cuda: a failed CUDA call is the end. After a kernel's error the context is lost, and every
// size was planned before: there is nothing to go on with.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/check.h"

namespace glint::cuda {

// Aborts unless `error` is cudaSuccess. `doing` says what was asked and what ran last, because a
// kernel's error shows up in a later call.
inline void check_cuda(cudaError_t error, const std::string& doing) {
  GLINT_CHECK(error == cudaSuccess, doing + ": " + cudaGetErrorString(error));
}

}  // namespace glint::cuda
