#include "cli/serve_memory.h"

#include <algorithm>

#include "base/str.h"
#include "cli/serve_plan.h"
#include "ops/kv_layout.h"

namespace glint {
namespace {

constexpr std::int64_t kMaxPages = std::int64_t{1} << 24;
constexpr double kDefaultShareOfFree = 0.5;  // a machine without a GPU does other things as well
constexpr double kDefaultShareOfGpu = 0.9;   // as vLLM's

std::int64_t pages_of(std::int64_t tokens) { return (tokens + kPageSize - 1) / kPageSize; }

// Bytes for the cache by whichever option is given, the most exact first.
Result<double> wanted_bytes(const ServeOptions& o, const ServeMemory& m) {
  const auto total = static_cast<double>(m.total);
  if (!o.kv_cache_memory.empty()) {
    GLINT_TRY(const std::int64_t bytes, parse_bytes(o.kv_cache_memory));
    return static_cast<double>(bytes);
  }
  const bool by_share =
      o.gpu_memory_utilization || (!m.on_host && !o.mem_fraction_static && !o.free_memory_fraction);
  if (by_share)
    return total * o.gpu_memory_utilization.value_or(kDefaultShareOfGpu) -
           static_cast<double>(m.weights + m.activations);
  if (o.mem_fraction_static) return total * *o.mem_fraction_static - static_cast<double>(m.weights);
  return static_cast<double>(m.available - m.weights - m.activations) *
         o.free_memory_fraction.value_or(kDefaultShareOfFree);
}

}  // namespace

Result<CachePlan> plan_cache(const ServeOptions& o, const ServeMemory& m, int max_model_len,
                             bool may_shorten) {
  std::int64_t pages = 0;
  if (o.kv_cache_tokens) {
    pages = pages_of(*o.kv_cache_tokens);
  } else {
    GLINT_TRY(const double bytes, wanted_bytes(o, m));
    pages = bytes <= 0 ? 0 : static_cast<std::int64_t>(bytes) / m.page;
    const std::int64_t useful = (pages_of(max_model_len) + 1) * o.max_num_seqs;
    if (o.kv_cache_memory.empty()) pages = std::min(pages, useful);
  }
  if (pages > kMaxPages)
    return invalid(str("a KV cache of ", with_commas(pages * kPageSize),
                       " tokens is too large; it can hold ", with_commas(kMaxPages * kPageSize)));
  // On a host, weights that do not fit beside the cache stay in their files.
  const std::int64_t free = m.available - (m.on_host ? 0 : m.weights + m.activations);
  if (free < 0)
    return invalid(
        str("weights and steps of ", human_bytes(static_cast<double>(m.weights + m.activations)),
            " do not fit: ", human_bytes(static_cast<double>(m.available)),
            " are free on the GPU; quantize the checkpoint, or serve with --backend cpu"));
  if (pages * m.page > free)
    return invalid(str("a KV cache of ", human_bytes(static_cast<double>(pages * m.page)),
                       " does not fit: ", human_bytes(static_cast<double>(free)),
                       " are free; ask for less"));
  if (pages < 1 || (pages < pages_of(max_model_len) && !may_shorten))
    return invalid(str("the KV cache would hold ", with_commas(pages * kPageSize),
                       " tokens, fewer than the context of ", with_commas(max_model_len),
                       "; give it more memory, or a smaller --max-model-len"));
  return CachePlan{
      .pages = static_cast<int>(pages),
      .max_model_len = static_cast<int>(std::min<std::int64_t>(max_model_len, pages * kPageSize))};
}

}  // namespace glint
