// place_rows and keep_tokens on the device.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/sequences.h"

namespace glint::cuda {

void launch_place_rows(const PlaceRowsArgs& args, cudaStream_t stream);
void launch_keep_tokens(const KeepTokensArgs& args, cudaStream_t stream);

}  // namespace glint::cuda
