// write_latent and write_index on the device.
#pragma once

#include "backends/cuda/gpu.h"
#include "ops/kv_write.h"

namespace glint::cuda {

void launch_write_latent(const WriteLatentArgs& args, const Gpu& gpu);
void launch_write_index(const WriteIndexArgs& args, const Gpu& gpu);

}  // namespace glint::cuda
