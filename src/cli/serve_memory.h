// How many pages the KV cache of a server gets.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "cli/serve_options.h"
#include "runtime/step_memory.h"

namespace glint {

// Bytes, before the model is loaded.
struct ServeMemory {
  std::int64_t page = 0;         // one page of all layers
  std::int64_t weights = 0;      // once loaded; 0 if they are read where they are mapped
  std::int64_t activations = 0;  // of the largest step, and the rotary table
  StepMemory steps = {};         // of which these are reserved
  std::int64_t total = 0;      // of the device: of the machine or its control group, or of the GPU
  std::int64_t available = 0;  // now
  bool on_host = true;         // the device's memory is the host's
  std::int64_t host_available = 0;
};

struct CachePlan {
  int pages = 0;
  int max_model_len = 0;
};

// The cache that the options ask for (each peer's knob with its owner's meaning), or half of the
// free memory; of a GPU, what 90 % of its memory leave. A share of memory is cut to what
// `max_num_seqs` sequences of `max_model_len` tokens can fill. With `may_shorten` a context too
// long for memory becomes shorter; else the plan fails.
Result<CachePlan> plan_cache(const ServeOptions& options, const ServeMemory& memory,
                             int max_model_len, bool may_shorten);

}  // namespace glint
