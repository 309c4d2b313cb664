// The memory of a server, before its model is loaded: of all ranks that are on this machine; and
// how many pages of a KV cache it leaves.
#pragma once

#include <optional>

#include "model/place_weights.h"
#include "runtime/step_memory.h"
#include "runtime/step_trial.h"

namespace glint {

// Bytes.
struct ServeMemory {
  std::int64_t page = 0;       // one page of all layers
  std::int64_t weights = 0;    // once loaded; 0 if they are read where they are mapped
  std::int64_t working = 0;    // of the largest step, and the rotary table
  StepMemory steps = {};       // of which these are reserved
  std::int64_t total = 0;      // of the device: of the machine or its control group, or of the GPU
  std::int64_t available = 0;  // now
  bool on_host = true;         // the device's memory is the host's
  std::int64_t host_available = 0;
};

struct ServeMemoryArgs {
  TrialOptions trial = {};  // of a rank, whatever its stage; `like` is its backend
  int ranks_here = 1;  // on this machine: on the host they share its memory, else each has a device
  StepLimits limits = {};
  Packing packing = Packing::kIfRoom;
  bool made_up = false;  // the weights, which no file holds
};
// Fails where the layout has a stage that no rank can run.
Result<ServeMemory> plan_serve_memory(const ModelConfig& config, const ServeMemoryArgs& args);

// The size that is asked for, each as one of the servers asks for it; the first that is there
// holds. None: half of the free memory; of a GPU, what 90 % of its memory leave.
struct CacheWishes {
  std::optional<std::int64_t> tokens = {};
  std::optional<std::int64_t> bytes = {};
  std::optional<double> share = {};               // of all memory, less weights and steps (vLLM)
  std::optional<double> share_with_weights = {};  // of all memory, less weights (SGLang)
  std::optional<double> share_of_free = {};       // of what they leave (TensorRT-LLM)
  int max_running = 1;                            // sequences
  int max_model_len = 1;
  bool may_shorten = false;  // a context too long for memory becomes shorter, else the plan fails
};

struct CachePlan {
  int pages = 0;
  int max_model_len = 0;
};

// Pages that `max_running` sequences of `max_model_len` tokens can fill.
std::int64_t useful_pages(std::int64_t max_model_len, std::int64_t max_running);

// A share of memory is cut to the useful pages.
Result<CachePlan> plan_cache(const CacheWishes& wishes, const ServeMemory& memory);

}  // namespace glint
