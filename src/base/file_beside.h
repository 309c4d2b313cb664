// A new file beside the one whose place it will take, until it is renamed: NAME.tmp.PID.
#pragma once

#include <string>

#include "base/owned_fd.h"
#include "base/result.h"

namespace glint {

struct FileBeside {
  std::string path;
  // Locked, which tells those of other machines and containers that it is in use: keep it open
  // until it is renamed or removed.
  OwnedFd file;
};

// Creates it, empty. Before, removes what was left beside `path` by processes that are gone: files
// of exactly such names, whose process is not alive here and which nobody has locked. Fails if that
// name itself is locked: a container's process may have this one's id.
Result<FileBeside> create_beside(const std::string& path);

}  // namespace glint
