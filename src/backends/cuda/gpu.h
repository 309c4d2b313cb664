// The device that a launch is for, and the stream that everything is in.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/cuda/arch.h"

namespace glint::cuda {

struct Gpu {
  Arch arch = {};
  int num_sms = 0;
  cudaStream_t stream = nullptr;
  bool overlaps = true;  // a launch may start before the kernel before it ends
};

}  // namespace glint::cuda
