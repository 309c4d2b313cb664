// Which devices a build's code runs on. Targets are as nvcc counts architectures: "80 90a 120f".
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace glint::cuda {

// Whether one of `targets` runs on devices of a compute capability (90: 9.0): on later ones of its
// major capability too, but "a" on that one alone.
bool runs_on(std::string_view targets, int capability);

// Fails with a sentence about `device`, "CUDA device 0 (NVIDIA H200)", if none does.
Status check_target(const std::string& device, int capability, std::string_view targets);

// A sentence for who runs kernels on a device that they were never run on, else empty.
std::string unmeasured(const std::string& device, int capability);

}  // namespace glint::cuda
