// Stubs of backends/cuda for a build without CUDA.
#include "backends/cuda/cuda_ops.h"

namespace glint {

Status find_cuda_device(int) {
  return unsupported("this build has no CUDA; build the preset cuda, or run with --backend cpu");
}

Result<std::unique_ptr<Backend>> make_cuda_ops(int device, bool) {
  return find_cuda_device(device).error();
}

int num_cuda_devices() { return 0; }

std::int64_t cuda_group_bytes() { return 0; }

std::string cuda_device_note(int) { return {}; }

bool built_with_cuda() { return false; }

bool built_for_cuda_capability(int) { return false; }

}  // namespace glint
