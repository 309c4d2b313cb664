// The address in the first line of a request, and in its Host header.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace glint {

struct RequestTarget {
  std::string path;       // decoded: valid UTF-8 without control characters
  std::string query;      // as sent
  std::string authority;  // of "http://host/path", else empty
};
// "/path?query", "http://host/path?query" or "*".
Result<RequestTarget> parse_target(std::string_view target);

// Whether `text` may stand in a Host header: a name, an address, with or without a port.
bool is_authority(std::string_view text);

}  // namespace glint
