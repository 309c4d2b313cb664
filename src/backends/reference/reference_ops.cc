#include "backends/reference/reference_ops.h"

#include "backends/reference/reference_gradients.h"
#include "ops/capabilities.h"

namespace glint {

std::unique_ptr<Gradients> ReferenceOps::make_gradients() {
  return std::make_unique<ReferenceGradients>();
}

Capabilities ReferenceOps::capabilities() const { return all_capabilities("reference"); }

}  // namespace glint
