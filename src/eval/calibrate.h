// Calibration: how large the inputs of each linear layer become on given prompts, with the routing
// that the model itself chooses.
#pragma once

#include <functional>

#include "eval/input_ranges.h"
#include "runtime/loaded_model.h"

namespace glint {

struct CalibrateOptions {
  int tokens_per_step = 1024;  // the result does not depend on it
  // Told after each step how many tokens it ran; false ends the calibration there.
  std::function<bool(std::int64_t tokens)> progress = {};
};

struct Calibration {
  ActivationRanges ranges;
  std::size_t prompts = 0;  // that ran to their end: the first ones
  std::int64_t tokens = 0;  // positions that ran
  bool stopped = false;     // progress asked for it; `ranges` are those of what ran
};

// `model` must run on `ops`. Its MTP layer, if loaded, runs too, over each position whose next
// token is known. Empty prompts are skipped.
Result<Calibration> calibrate(LoadedModel& model, TapOps& ops, const TokenSequences& prompts,
                              const CalibrateOptions& options);

// Routed experts that no token reached, as lines for people: "layer 5: 2 of 256 experts (3, 17)".
// Only the gate projection is looked at: an expert's three projections see the same tokens.
std::vector<std::string> describe_unseen_experts(const ActivationRanges& ranges);

}  // namespace glint
