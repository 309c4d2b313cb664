// Results that would be written over what the same command reads.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace glint {

// A value of the command line. Without a path it names nothing.
struct NamedPath {
  std::string option;  // "--out", "MODEL"
  std::string path;
};

// Before anything is read: fails if a file of `written` is one of `read` or another of `written`,
// by whatever names and links. A directory of `read` stands for the files of the checkpoint in it.
Status check_apart(const std::vector<NamedPath>& read, const std::vector<NamedPath>& written);

}  // namespace glint
