// Numbers for which JSON has no word.
#pragma once

#include <cmath>

#include "base/json.h"

namespace glint {

// null for NaN and what is beyond the largest number.
inline Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

}  // namespace glint
