// Where the GPUs of a group find each other's windows, by NCCL's device API.
#pragma once

#include <nccl.h>

#include "backends/cuda/comm/windows.h"
#include "backends/cuda/gpu.h"

namespace glint::cuda {

// Writes the windows of `size` ranks, in their order, into windows->at; waits for the GPU.
void find_windows(ncclWindow_t window, int size, const Gpu& gpu, Windows* windows);

}  // namespace glint::cuda
