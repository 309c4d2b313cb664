#include "backends/reference/reference_ops.h"

#include "ops/capabilities.h"

namespace glint {

ReferenceOps::ReferenceOps(std::unique_ptr<Device> device) : device_(std::move(device)) {
  GLINT_CHECK(device_->is_host(), "the reference computes in host memory");
}

Capabilities ReferenceOps::capabilities() const { return all_capabilities("reference"); }

}  // namespace glint
