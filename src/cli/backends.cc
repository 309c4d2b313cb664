#include "cli/backends.h"

#include "backends/reference/reference_ops.h"
#include "base/str.h"

namespace glint {

Result<std::unique_ptr<Ops>> make_backend(const BackendOptions& options) {
  if (options.name == "reference" || options.name == "cpu") return std::unique_ptr<Ops>(std::make_unique<ReferenceOps>());
  return invalid(str("no backend ", options.name));
}

}  // namespace glint
