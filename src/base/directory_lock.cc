#include "base/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/str.h"

namespace glint {

DirectoryLock::~DirectoryLock() {
  if (!made_.empty()) ::rmdir(made_.c_str());
}

Status DirectoryLock::lock(const std::string& dir) {
  if (fd_) return Ok{};
  std::error_code error;
  if (std::filesystem::create_directories(dir, error)) made_ = dir;
  if (error) return invalid(str("cannot create ", dir, ": ", error.message()));
  OwnedFd fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return invalid(str(dir, " is being written by another process; wait for it, or end it"));
  }
  fd_ = std::move(fd);
  return Ok{};
}

}  // namespace glint
