// Conformance of groups whose tensors lie on a device.
#pragma once

#include <string>

#include "comm/comm.h"
#include "tensor/device.h"

namespace glint {

// Makes every kind of call, of sizes 0, odd and large, in `host`, which reads host memory, and in
// `on_device`, the same group's member on `device`, and compares bits. Collective. A sentence about
// the first call that differs, or nothing.
std::string compare_collectives(Comm& host, Comm& on_device, Device& device);

}  // namespace glint
