// The memory plan: how many pages of KV cache fit beside the weights and a step's temporaries.
#pragma once

#include "model/config.h"
#include "model/kv_store.h"
#include "tensor/dtype.h"

namespace glint {

// What a fraction of memory means. Engines differ, and a flag keeps the meaning of its own.
enum class MemoryShare {
  kAuto,             // no fraction: what the requests can use, in at most half of what is free
  kOfTotal,          // all together, weights, temporaries and cache, take this share of all memory
  kWeightsAndCache,  // weights and cache together take this share of all memory
  kOfFree,           // the cache takes this share of what weights and temporaries leave
};

struct MemoryNeeds {
  // Bytes of the machine: all, and what is available now, with the weights loaded.
  std::int64_t total = 0, available = 0;
  std::int64_t weights = 0;
  bool weights_are_mapped = false;  // read from files as needed: they count as available
  std::int64_t temporaries = 0;     // of a step, not allocated yet
  std::int64_t page_bytes = 0;

  int max_seq_len = 0;  // tokens of one sequence, drafts included
  int max_running = 0;

  MemoryShare share = MemoryShare::kAuto;
  double fraction = 0;  // above 0 and at most 1, except with kAuto
  int num_pages = 0;    // above 0: so many, whatever the fraction says
};

struct MemoryPlan {
  int num_pages = 0;
  std::int64_t cache_bytes = 0;
  const char* limited_by = "";  // "requests", "fraction", "free memory", "num_pages"
};

// Fails with what to change if not even one sequence of max_seq_len fits.
Result<MemoryPlan> plan_memory(const MemoryNeeds& needs);

// What a step works on: enough for its arenas (tested against them), and a share more for what
// kernels keep for themselves.
struct StepSize {
  int max_step_tokens = 0;
  int max_running = 0;
  int max_drafts = 0;
  std::int64_t max_seq_len = 0;
  bool with_mtp = false;
  DType activations = DType::kBF16;
};
std::int64_t temporary_bytes(const ModelConfig& config, const StepSize& size);

}  // namespace glint
