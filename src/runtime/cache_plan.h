// How many pages the KV cache of a server gets, of the memory that its plan leaves.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "runtime/serve_memory.h"

namespace glint {

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
