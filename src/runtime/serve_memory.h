// The memory of a server, before its model is loaded: of all ranks that are on this machine.
#pragma once

#include "model/place_weights.h"
#include "runtime/step_memory.h"
#include "runtime/step_trial.h"

namespace glint {

// Bytes.
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

struct ServeMemoryArgs {
  TrialOptions trial = {};  // of a rank, whatever its stage; `like` is its backend
  int ranks_here = 1;  // on this machine: on the host they share its memory, else each has a device
  StepLimits limits = {};
  Packing packing = Packing::kIfRoom;
  bool made_up = false;  // the weights, which no file holds
};
// Fails where the layout has a stage that no rank can run.
Result<ServeMemory> plan_serve_memory(const ModelConfig& config, const ServeMemoryArgs& args);

}  // namespace glint
