// Shell patterns over names.
#pragma once

#include <string_view>

namespace glint {

// True if `glob` (*, ?, [abc], [!abc]) matches all of `text`, as Python's fnmatch does: * matches /
// too.
bool glob_matches(std::string_view glob, std::string_view text);

}  // namespace glint
