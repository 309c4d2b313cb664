// The CUDA backend, as the rest of the program sees it: no CUDA header, so that everything links
// with or without it (backends/no_cuda.cc).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ops/backend.h"

namespace glint {

// Ops on the CUDA device numbered `device`; `use_windows` false: groups of ranks do not read each
// other's memory (comm/choose_way.h). kUnsupported when this build has no CUDA or the device
// is none that it has kernels for; kNotFound when there is no such device.
Result<std::unique_ptr<Backend>> make_cuda_ops(int device, bool use_windows = true);

// Whether make_cuda_ops(device) would find its device, without making anything on it.
Status find_cuda_device(int device);

// Devices that this process is shown.
int num_cuda_devices();

// Memory of the device that a group of several ranks takes, NCCL's own included.
std::int64_t cuda_group_bytes();

// A sentence that users of such a device should read, or an empty one: that nobody ran the kernels
// on its kind.
std::string cuda_device_note(int device);

// Whether this build has the CUDA backend, and whether it has code for devices of a compute
// capability (90: 9.0).
bool built_with_cuda();
bool built_for_cuda_capability(int capability);

}  // namespace glint
