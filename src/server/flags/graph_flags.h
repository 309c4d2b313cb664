// Other servers' flags about CUDA graphs and how GPUs talk.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/graph_wishes.h"

namespace glint {

struct GraphFlags : GraphWishes {
  bool windows = true;                  // GPUs read each other's memory where they can
  std::vector<std::string> given = {};  // the flags, as the user wrote them

  // Sets `part`, a name of one of these. Fails if `value` is none that it has.
  Status set(std::string_view part, const std::string& value);
};

}  // namespace glint
