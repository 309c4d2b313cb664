// The memory that a step needs besides weights and caches, for planning it before there is a
// model.
#pragma once

#include "model/config.h"
#include "tensor/dtype.h"

namespace glint {

struct StepSize {
  int max_step_tokens = 0;
  int max_running = 0;
  int max_drafts = 0;  // above 0: with the MTP layer
  std::int64_t max_seq_len = 0;
  DType activations = DType::kBF16;
};

// Bytes: enough for the arenas of the largest step (tested against them), and a quarter more for
// what kernels keep for themselves.
std::int64_t step_bytes(const ModelConfig& config, const StepSize& size);

}  // namespace glint
