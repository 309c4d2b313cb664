#include "backends/cuda/testing/device_checks.h"

namespace glint::cuda {

std::vector<DeviceCheck> device_checks() {
  std::vector<DeviceCheck> all;
  for (const auto& checks :
       {memory_checks(), product_checks(), block_checks(), attention_checks(), group_checks()})
    all.insert(all.end(), checks.begin(), checks.end());
  return all;
}

}  // namespace glint::cuda
