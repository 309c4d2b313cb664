#include "base/directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "base/owned_fd.h"
#include "base/str.h"
#include "base/system_error.h"

namespace glint {

namespace fs = std::filesystem;

Status sync_directory(const std::string& dir) {
  const OwnedFd opened(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return system_error("cannot open", dir, errno);
  if (::fsync(opened.get()) != 0) return system_error("cannot sync", dir, errno);
  return Ok{};
}

Status rename_directory(const std::string& partial, const std::string& dir) {
  if (std::rename(partial.c_str(), dir.c_str()) != 0)
    return system_error("cannot rename to", dir, errno);
  const std::string parent = fs::path(dir).parent_path().string();
  return sync_directory(parent.empty() ? "." : parent);
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Status claim_directory_name(const std::string& dir) {
  if (dir.empty()) return invalid("the directory to make has no name");
  std::error_code error;
  const fs::file_type type = fs::symlink_status(dir, error).type();
  if (type == fs::file_type::not_found) {
    const std::string parent = fs::path(dir).parent_path().string();
    return parent.empty() || is_directory(parent) ? Status(Ok{})
                                                  : system_error("cannot create", dir, ENOENT);
  }
  if (type == fs::file_type::none) return system_error("cannot create", dir, error.value());
  // rmdir() does what is needed and no more: it fails on links, mount points, and what holds files.
  if (type == fs::file_type::directory && ::rmdir(dir.c_str()) == 0) return Ok{};
  return invalid(str(dir, " exists; expected a directory that is empty or yet to be made"));
}

}  // namespace glint
