// The host's cost per step, measured with an executor that computes nothing.
#pragma once

namespace glint {

struct EngineBenchOptions {
  int num_running = 64;  // sequences that decode together
  int num_steps = 500;   // per measurement
  double step_ms = 1;    // how long the executor pretends to compute, for the gaps
};

// Microseconds per decode step.
struct EngineBenchResult {
  double schedule_us = 0;  // Scheduler::schedule
  double commit_us = 0;    // Scheduler::commit
  // From the end of a step to the begin of the next in the executor, with so many plans in flight:
  // threads, inbox and sink included.
  double gap_depth_1_us = 0, gap_depth_2_us = 0;
  // The gap where the executor takes a second plan while it computes.
  double gap_ahead_us = 0;
};

EngineBenchResult bench_engine(const EngineBenchOptions& options);

}  // namespace glint
