// rms_norm and layer_norm on the device.
#pragma once

#include "backends/cuda/gpu.h"
#include "ops/norm.h"

namespace glint::cuda {

void launch_rms_norm(const RmsNormArgs& args, const Gpu& gpu);
void launch_layer_norm(const LayerNormArgs& args, const Gpu& gpu);

}  // namespace glint::cuda
