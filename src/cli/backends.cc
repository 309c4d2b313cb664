#include "cli/backends.h"

#include "backends/cuda/cuda_ops.h"
#include "backends/reference/reference_ops.h"
#include "base/str.h"

namespace glint {

Result<std::unique_ptr<Ops>> make_backend(const BackendOptions& options) {
  if (options.name == "cuda") return make_cuda_ops(0);
  return std::unique_ptr<Ops>(std::make_unique<ReferenceOps>());
}

}  // namespace glint
