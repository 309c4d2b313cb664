// The commands of the program, in the order of `glint --help`: one line here and one file,
// cmd_x.cc, each.
#pragma once

#include <vector>

#include "cli/command.h"

namespace glint {

Command tokenize_command();
Command detokenize_command();

inline std::vector<Command> all_commands() {
  return {
      tokenize_command(),
      detokenize_command(),
  };
}

}  // namespace glint
