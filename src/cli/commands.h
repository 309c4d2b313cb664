// The commands of the program, in the order of `glint --help`: one line here and one file,
// cmd_x.cc, each.
#pragma once

#include <vector>

#include "cli/command.h"

namespace glint {

inline std::vector<Command> all_commands() { return {}; }

}  // namespace glint
