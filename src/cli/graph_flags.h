// Other servers' flags about CUDA graphs, and the graphs that they ask for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/step_graphs.h"

namespace glint {

struct GraphFlags {
  bool eager = false;                     // no graphs
  bool pads = true;                       // GraphSizes
  std::vector<std::int64_t> rows = {};    // these sizes alone
  std::optional<std::int64_t> most = {};  // none is larger
  std::vector<std::string> given = {};    // the flags, as the user wrote them

  // Sets `part`, a name of one of these. Fails if `value` is none that it has.
  Status set(std::string_view part, const std::string& value);
};

// The graphs of a server in which at most `max_running` sequences run.
GraphSizes sizes_of(const GraphFlags& flags, std::int64_t max_running);

}  // namespace glint
