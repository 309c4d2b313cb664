#include "runtime/graph_wishes.h"

#include <algorithm>

namespace glint {

GraphSizes sizes_of(const GraphWishes& wishes, std::int64_t max_running) {
  GraphSizes sizes = {.rows = wishes.rows, .pads = wishes.pads};
  const std::int64_t most = std::min(wishes.most.value_or(max_running), max_running);
  if (sizes.rows.empty()) sizes = {.rows = usual_graphs(most).rows, .pads = wishes.pads};
  std::vector<std::int64_t>& rows = sizes.rows;
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  // The first that no step fills holds the largest steps.
  const auto last = std::lower_bound(rows.begin(), rows.end(), most);
  if (last != rows.end()) rows.erase(last + (wishes.pads || *last == most ? 1 : 0), rows.end());
  if (wishes.eager) rows.clear();
  return sizes;
}

}  // namespace glint
