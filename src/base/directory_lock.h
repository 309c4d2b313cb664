// DirectoryLock: keeps a second process away from a directory that this one writes.
#pragma once

#include <string>

#include "base/owned_fd.h"
#include "base/result.h"

namespace glint {

class DirectoryLock {
 public:
  DirectoryLock() = default;
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // Makes `dir` where it is missing; if nothing comes into it, it goes at the end. Fails if another
  // process has its lock; where the file system knows none, as some that are shared by machines,
  // nobody is kept away. Does nothing for one that locked already.
  Status lock(const std::string& dir);

 private:
  std::string made_;
  OwnedFd fd_;
};

}  // namespace glint
