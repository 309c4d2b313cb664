// The backward passes on a CUDA device.
#pragma once

#include <memory>

#include "backends/cuda/device.h"
#include "ops/backward.h"

namespace glint::cuda {

// `device` outlives them.
std::unique_ptr<Gradients> make_cuda_gradients(CudaDevice& device);

}  // namespace glint::cuda
