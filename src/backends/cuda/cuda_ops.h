// The CUDA backend, as the rest of the program sees it: no CUDA header, so that everything links
// with or without it (backends/no_cuda.cc).
#pragma once

#include <memory>

#include "ops/ops.h"

namespace glint {

// Ops on the CUDA device numbered `device`. kUnsupported when this build has no CUDA or the device
// is none that it has kernels for; kNotFound when there is no such device.
Result<std::unique_ptr<Ops>> make_cuda_ops(int device);

// Whether make_cuda_ops(device) would find its device, without making anything on it.
Status find_cuda_device(int device);

// Whether this build has the CUDA backend.
bool built_with_cuda();

}  // namespace glint
