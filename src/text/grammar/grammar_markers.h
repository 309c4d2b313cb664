// Patterns of arguments, whose bare text ends at a marker: each marker begins with '<', which
// cannot be escaped.
#pragma once

#include <string>
#include <string_view>

namespace glint {

// Any text, as the filler of prepare_schema(), that begins no marker.
inline constexpr std::string_view kNoMarkers = "[^<]*";

// A pattern whose "." and classes do not match '<', unless they name it.
std::string without_markers(std::string_view pattern);

}  // namespace glint
