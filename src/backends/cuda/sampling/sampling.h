// sample, argmax and token_log_probs on the device: a block of threads for each row.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/sampling.h"

namespace glint::cuda {

void launch_sample(const SampleArgs& args, cudaStream_t stream);
void launch_argmax(const ArgmaxArgs& args, cudaStream_t stream);
void launch_token_log_probs(const TokenLogProbsArgs& args, cudaStream_t stream);

}  // namespace glint::cuda
