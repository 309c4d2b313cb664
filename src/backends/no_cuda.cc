// Stubs of backends/cuda for a build without CUDA.
#include "backends/cuda/cuda_ops.h"

namespace glint {

Result<std::unique_ptr<Ops>> make_cuda_ops(int) {
  return Error{ErrorCode::kUnsupported,
               "this build has no CUDA; build the preset cuda, or run with --backend cpu"};
}

bool built_with_cuda() { return false; }

}  // namespace glint
