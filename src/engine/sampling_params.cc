#include "engine/sampling_params.h"

#include <cmath>

#include "base/str.h"

namespace glint {

Status validate(const SamplingParams& params) {
  if (!(params.temperature >= 0) || !std::isfinite(params.temperature)) {
    return invalid(str("temperature is ", params.temperature, "; it must be 0 or more"));
  }
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    return invalid(str("top-p is ", params.top_p, "; it must be above 0 and at most 1"));
  }
  if (params.top_k < 0)
    return invalid(str("top-k is ", params.top_k, "; it must be 0 (all) or more"));
  if (!(params.min_p >= 0 && params.min_p <= 1)) {
    return invalid(str("min-p is ", params.min_p, "; it must be between 0 and 1"));
  }
  if (!(params.repetition_penalty > 0) || !std::isfinite(params.repetition_penalty)) {
    return invalid(
        str("repetition-penalty is ", params.repetition_penalty, "; it must be above 0"));
  }
  return Ok{};
}

}  // namespace glint
