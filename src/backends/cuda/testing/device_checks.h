// Checks of what conformance does not ask of a backend: its memory, its copies, and that an output
// row has the same bits whatever ran beside it. For the unit test and for tests/gpu_check, which
// has no test framework.
#pragma once

#include <string>
#include <vector>

#include "ops/ops.h"

namespace glint::cuda {

struct DeviceCheck {
  const char* name;
  std::string (*run)(Ops& ops);  // the fault, or an empty text
};
std::vector<DeviceCheck> device_checks();  // all of these:

std::vector<DeviceCheck> memory_checks();
std::vector<DeviceCheck> product_checks();
std::vector<DeviceCheck> block_checks();
std::vector<DeviceCheck> attention_checks();
std::vector<DeviceCheck> group_checks();

}  // namespace glint::cuda
