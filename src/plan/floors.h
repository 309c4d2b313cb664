// The least time of a step: the roofline, from the costs of the model's own calls.
#pragma once

#include "plan/devices.h"
#include "runtime/step_trial.h"

namespace glint {

// The floor of one pass on every rank. For each class of work (an op with one kind of weight, all
// layers together) the longer of its bytes and its FLOPs, one class after another, and the
// collectives. Activations, launches, norms and sampling take no time: engines are slower.
struct Floor {
  double seconds = 0;           // through all stages
  double collectives = 0;       // of it
  double slowest = 0;           // stage
  double bytes = 0, flops = 0;  // of a rank of the slowest stage: weights and cache alone
};

// Adds a stage that has just run `shape`.
void add_stage(const StepTrial& trial, const ModelConfig& config, const TrialOptions& options,
               const PassShape& shape, const DeviceModel& device, Floor& floor);

}  // namespace glint
