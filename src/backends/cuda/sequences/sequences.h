// place_rows, place_draws, accept, keep_rows and count_tokens on the device.
#pragma once

#include "backends/cuda/gpu.h"
#include "ops/sequences.h"

namespace glint::cuda {

void launch_place_rows(const PlaceRowsArgs& args, const Gpu& gpu);
void launch_place_draws(const PlaceDrawsArgs& args, const Gpu& gpu);
void launch_accept(const AcceptArgs& args, const Gpu& gpu);
void launch_keep_rows(const KeepRowsArgs& args, const Gpu& gpu);
void launch_count_tokens(const CountTokensArgs& args, const Gpu& gpu);

}  // namespace glint::cuda
