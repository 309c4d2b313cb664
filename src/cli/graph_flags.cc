#include "cli/graph_flags.h"

#include <algorithm>

#include "base/options.h"
#include "base/str.h"

namespace glint {

Status GraphFlags::set(std::string_view part, const std::string& value) {
  if (part == "rows" || part == "most") {
    int number = 0;
    if (!option_detail::parse(value, number) || number < 1 || number > 65536)
      return invalid(str("a CUDA graph is of 1 to 65536 sequences, got ", quoted(value)));
    if (part == "rows") {
      rows.push_back(number);
    } else {
      most = number;
    }
    return Ok{};
  }
  const bool on = (value == "true") != part.starts_with("no ");
  (part.ends_with("eager") ? eager : pads) = on;
  return Ok{};
}

GraphSizes sizes_of(const GraphFlags& flags, std::int64_t max_running) {
  GraphSizes sizes = {.rows = flags.rows, .pads = flags.pads};
  const std::int64_t most = std::min(flags.most.value_or(max_running), max_running);
  if (sizes.rows.empty()) sizes = {.rows = usual_graphs(most).rows, .pads = flags.pads};
  std::vector<std::int64_t>& rows = sizes.rows;
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  // The first that no step fills holds the largest steps.
  const auto last = std::lower_bound(rows.begin(), rows.end(), most);
  if (last != rows.end()) rows.erase(last + (flags.pads || *last == most ? 1 : 0), rows.end());
  if (flags.eager) rows.clear();
  return sizes;
}

}  // namespace glint
