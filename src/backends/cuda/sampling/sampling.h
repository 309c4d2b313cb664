// sample, argmax and token_log_probs on the device: a block of threads for each row.
#pragma once

#include "backends/cuda/gpu.h"
#include "ops/sampling.h"

namespace glint::cuda {

void launch_sample(const SampleArgs& args, const Gpu& gpu);
void launch_argmax(const ArgmaxArgs& args, const Gpu& gpu);
void launch_token_log_probs(const TokenLogProbsArgs& args, const Gpu& gpu);

}  // namespace glint::cuda
