// Which decode steps a user wants as graphs of a device, where it has any.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace glint {

struct GraphWishes {
  bool eager = false;                     // no graphs
  bool pads = true;                       // smaller steps use them as well
  std::vector<std::int64_t> rows = {};    // these sizes alone; empty: the usual ones
  std::optional<std::int64_t> most = {};  // none is larger
};

}  // namespace glint
