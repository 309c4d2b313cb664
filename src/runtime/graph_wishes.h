// The sizes of graphs that a server records, of those that its user asks for.
#pragma once

#include <optional>
#include <vector>

#include "runtime/step_graphs.h"

namespace glint {

struct GraphWishes {
  bool eager = false;                     // no graphs
  bool pads = true;                       // GraphSizes
  std::vector<std::int64_t> rows = {};    // these sizes alone; empty: the usual ones
  std::optional<std::int64_t> most = {};  // none is larger
};

// The graphs of a server in which at most `max_running` sequences run.
GraphSizes sizes_of(const GraphWishes& wishes, std::int64_t max_running);

}  // namespace glint
