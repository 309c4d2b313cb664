// place_rows and keep_tokens on the device.
#pragma once

#include "backends/cuda/gpu.h"
#include "ops/sequences.h"

namespace glint::cuda {

void launch_place_rows(const PlaceRowsArgs& args, const Gpu& gpu);
void launch_keep_tokens(const KeepTokensArgs& args, const Gpu& gpu);

}  // namespace glint::cuda
