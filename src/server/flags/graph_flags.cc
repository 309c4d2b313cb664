#include "server/flags/graph_flags.h"

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
  (part.ends_with("eager") ? eager : part.ends_with("pads") ? pads : windows) = on;
  return Ok{};
}

}  // namespace glint
