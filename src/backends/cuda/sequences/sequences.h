// place_rows, keep_tokens and count_tokens on the device.
#pragma once

#include "backends/cuda/gpu.h"
#include "ops/sequences.h"

namespace glint::cuda {

void launch_place_rows(const PlaceRowsArgs& args, const Gpu& gpu);
void launch_keep_tokens(const KeepTokensArgs& args, const Gpu& gpu);
void launch_count_tokens(const CountTokensArgs& args, const Gpu& gpu);

}  // namespace glint::cuda
