#include "runtime/serve_memory.h"

#include <algorithm>

#include "base/memory.h"
#include "base/str.h"
#include "ops/kv_layout.h"
#include "runtime/memory_plan.h"

namespace glint {
namespace {

constexpr std::int64_t kMaxPages = std::int64_t{1} << 24;
constexpr double kDefaultShareOfFree = 0.5;  // a machine without a GPU does other things as well
constexpr double kDefaultShareOfGpu = 0.9;   // as vLLM's

// Bytes for the cache by whichever wish there is, the most exact first.
double wanted_bytes(const CacheWishes& w, const ServeMemory& m) {
  const auto total = static_cast<double>(m.total);
  if (w.bytes) return static_cast<double>(*w.bytes);
  if (w.share || (!m.on_host && !w.share_with_weights && !w.share_of_free)) {
    return total * w.share.value_or(kDefaultShareOfGpu) -
           static_cast<double>(m.weights + m.working);
  }
  if (w.share_with_weights) return total * *w.share_with_weights - static_cast<double>(m.weights);
  return static_cast<double>(m.available - m.weights - m.working) *
         w.share_of_free.value_or(kDefaultShareOfFree);
}

}  // namespace

Result<ServeMemory> plan_serve_memory(const ModelConfig& config, const ServeMemoryArgs& args) {
  const MeshShape& shape = args.trial.shape;
  Device& device = args.trial.like->device();
  GLINT_TRY(const std::vector<MemoryPlan> stages, plan_stages(config, args.trial, args.limits));
  // A rank's: the most of any stage; of weights and pages, where all stages share this host's
  // memory, the mean.
  const bool share_memory = device.is_host() && args.ranks_here == shape.num_ranks();
  MemoryPlan plan = {.rope = stages.front().rope, .step = stages.front().step};
  std::int64_t weights = 0;
  const auto add = [&](std::int64_t& to, std::int64_t more) {
    to = share_memory ? to + more : std::max(to, more * shape.pp);
  };
  for (const MemoryPlan& one : stages) {
    add(weights, one.weight_bytes());
    add(plan.page, one.page);
  }
  const DeviceMemory have = device.memory();
  // All ranks of this machine are in the host's memory, each with the whole cache of its replica's
  // layers; or each has a device.
  const std::int64_t ranks = device.is_host() ? args.ranks_here : 1;
  ServeMemory memory = {.page = plan.page * ranks / shape.pp,
                        .weights = weights * ranks / shape.pp,
                        .working = plan.working_bytes(ranks),
                        .steps = plan.step,
                        .total = have.total,
                        .available = have.available,
                        .on_host = device.is_host(),
                        .host_available = available_memory()};
  // Weights that memory does not hold beside that stay mapped, and take none that is counted.
  const bool fits = memory.weights + memory.working <= memory.available;
  const bool stay_mapped = memory.on_host && (args.packing == Packing::kNever ||
                                              (args.packing == Packing::kIfRoom && !fits));
  if (stay_mapped && !args.made_up) memory.weights = 0;
  return memory;
}

std::int64_t useful_pages(std::int64_t max_model_len, std::int64_t max_running) {
  return (pages_of(max_model_len) + 1) * max_running;
}

Result<CachePlan> plan_cache(const CacheWishes& w, const ServeMemory& m) {
  std::int64_t pages = 0;
  if (w.tokens) {
    pages = pages_of(*w.tokens);
  } else {
    const double bytes = wanted_bytes(w, m);
    pages = bytes <= 0 ? 0 : static_cast<std::int64_t>(bytes) / m.page;
    if (!w.bytes) pages = std::min(pages, useful_pages(w.max_model_len, w.max_running));
  }
  if (pages > kMaxPages)
    return invalid(str("a KV cache of ", with_commas(pages * kPageSize),
                       " tokens is too large; it can hold ", with_commas(kMaxPages * kPageSize)));
  // On a host, weights that do not fit beside the cache stay in their files.
  const std::int64_t free = m.available - (m.on_host ? 0 : m.weights + m.working);
  const bool all_fit = m.weights + m.working <= m.available;
  if (!all_fit && (!m.on_host || (pages < 1 && !w.bytes)))
    return invalid(str("weights and steps of ", human_bytes(m.weights + m.working),
                       " do not fit: ", human_bytes(m.available), " are free",
                       m.on_host ? "; weights that stay in the files of a checkpoint (--pack auto) "
                                   "take none, and a smaller --max-num-batched-tokens takes less"
                                 : " on the GPU; quantize the checkpoint, or serve with --backend "
                                   "cpu"));
  if (pages * m.page > free)
    return invalid(str("a KV cache of ", human_bytes(pages * m.page),
                       " does not fit: ", human_bytes(free), " are free; ask for less"));
  if (pages < 1)
    return invalid(str("a KV cache of ", human_bytes(std::max(wanted_bytes(w, m), 0.0)),
                       " holds no page of ", kPageSize, " tokens; give it ", human_bytes(m.page),
                       " (", with_commas(m.page), " bytes) or more"));
  if (pages < pages_of(w.max_model_len) && !w.may_shorten)
    return invalid(str("the KV cache would hold ", with_commas(pages * kPageSize),
                       " tokens, fewer than the context of ", with_commas(w.max_model_len),
                       "; give it more memory, or a smaller --max-model-len"));
  return CachePlan{.pages = static_cast<int>(pages),
                   .max_model_len = static_cast<int>(
                       std::min<std::int64_t>(w.max_model_len, pages * kPageSize))};
}

}  // namespace glint
