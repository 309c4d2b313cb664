// Decode steps of a whole engine over a model, and what lies between two of them on the device.
#pragma once

#include "runtime/loaded_model.h"

namespace glint {

struct GapBench {
  int running = 1;      // sequences that decode together
  int steps = 300;      // tokens of each
  int prompt_len = 64;  // random tokens
  // Requests have bad words, so that the host must know each token before the next can be drawn.
  bool reads_answers = false;
};

struct GapResult {
  double step_us = 0;  // from one step to the next, as the host sees it
  // How long the device waited between a step and the next, and before the next one's sampling, of
  // steps that were graphs; 0 where there is none.
  double median_us = 0, p99_us = 0;
  std::size_t count = 0;  // of these
};

// Takes the model's pages. Fails if memory does not hold the sequences.
Result<GapResult> bench_gaps(LoadedModel& model, const GapBench& bench);

}  // namespace glint
