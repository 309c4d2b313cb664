// The model that a run of training began with: one that goes on is given the same.
#pragma once

#include <string>

#include "base/result.h"

namespace glint {

// For the state of a run's checkpoints: the checkpoint in `dir`, by samples of its weights.
Result<std::string> base_of_run(const std::string& dir);

}  // namespace glint
