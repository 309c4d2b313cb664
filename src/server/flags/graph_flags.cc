#include "server/flags/graph_flags.h"

#include <utility>

#include "base/option_value.h"
#include "base/str.h"

namespace glint {

Status GraphFlags::set(std::string_view part, const std::string& value) {
  if (part == "rows" || part == "most" || part == "sizes") {
    int number = 0;
    if (!parse_option(value, number) || number < 1 || number > 65536)
      return invalid(str("a CUDA graph is of 1 to 65536 sequences, got ", quoted(value)));
    if (part == "rows" || (part == "sizes" && !rows.empty())) {
      rows.push_back(number);
    } else if (part == "sizes" && most) {  // one size is the largest, several are all
      rows = {*std::exchange(most, {}), number};
    } else {
      most = number;
    }
    return Ok{};
  }
  const bool on = (value == "true") != part.starts_with("no ");
  (part.ends_with("eager") ? eager : part.ends_with("pads") ? pads : windows) = on;
  return Ok{};
}

}  // namespace glint
