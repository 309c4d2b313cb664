#include "base/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/str.h"

namespace glint {

DirectoryLock::~DirectoryLock() {
  if (!made_.empty()) ::rmdir(made_.c_str());
}

Status DirectoryLock::lock(const std::string& dir) {
  std::error_code error;
  if (std::filesystem::create_directories(dir, error)) made_ = dir;
  if (error) return invalid(str("cannot create ", dir, ": ", error.message()));
  fd_ = OwnedFd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd_ && ::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return invalid(str(dir, " is being written by another process; wait for it, or end it"));
  }
  return Ok{};
}

}  // namespace glint
