#include "runtime/serve_memory.h"

#include "base/memory.h"
#include "runtime/memory_plan.h"

namespace glint {

Result<ServeMemory> plan_serve_memory(const ModelConfig& config, const ServeMemoryArgs& args) {
  const MeshShape& shape = args.trial.shape;
  Device& device = args.trial.like->device();
  GLINT_TRY(const std::vector<MemoryPlan> stages, plan_stages(config, args.trial, args.limits));
  // A rank's: the most of any stage; of weights and pages, where stages share the host's memory,
  // the mean.
  MemoryPlan plan = {.rope = stages.front().rope, .step = stages.front().step};
  std::int64_t weights = 0;
  const auto add = [&](std::int64_t& to, std::int64_t more) {
    to = device.is_host() ? to + more : std::max(to, more * shape.pp);
  };
  for (const MemoryPlan& one : stages) {
    add(weights, one.weight_bytes());
    add(plan.page, one.page);
  }
  const DeviceMemory have = device.memory();
  // All ranks of this machine are in the host's memory, each with the whole cache of its shard's
  // layers; or each has a device.
  const std::int64_t ranks = device.is_host() ? args.ranks_here : 1;
  ServeMemory memory = {.page = plan.page * ranks / shape.pp,
                        .weights = weights * ranks / shape.pp,
                        .activations = plan.working_bytes(ranks),
                        .steps = plan.step,
                        .total = have.total,
                        .available = have.available,
                        .on_host = device.is_host(),
                        .host_available = available_memory()};
  // Weights that memory does not hold beside that stay mapped, and take none that is counted.
  const bool fits = memory.weights + memory.activations <= memory.available;
  const bool stay_mapped = memory.on_host && (args.packing == Packing::kNever ||
                                              (args.packing == Packing::kIfRoom && !fits));
  if (stay_mapped && !args.made_up) memory.weights = 0;
  return memory;
}

}  // namespace glint
