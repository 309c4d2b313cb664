#include "base/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <vector>

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

namespace {

// Fails with EEXIST where something has the new name.
int rename_to_free_name(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  // A file system that cannot do both at once, as NFS.
  if (is_present(to)) return EEXIST;
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

// All or nothing, but for a process that is killed meanwhile.
Status move_all(const std::string& from, const std::string& to, const MoveOrder& order) {
  std::vector<std::string> names;
  std::error_code error;
  if (!is_half_moved(from, to, order) && !fs::is_empty(to, error)) {
    return invalid(str(to, " is not empty any more; empty it, and run the command again"));
  }
  for (const auto& entry : fs::directory_iterator(from, error)) {
    names.push_back(entry.path().filename().string());
  }
  if (error) return system_error("cannot read", from, error.value());
  const auto rank = [&](const std::string& name) {
    return name == order.first ? 0 : name == order.last ? 2 : 1;
  };
  std::ranges::sort(names, {}, rank);
  std::size_t moved = 0;
  const auto move_rest = [&]() -> Status {
    for (; moved < names.size(); ++moved) {
      const bool follows_first = moved > 0 && names[moved - 1] == order.first;
      if (follows_first || names[moved] == order.last) GLINT_TRY_STATUS(sync_directory(to));
      const std::string path = str(to, "/", names[moved]);
      const int code = rename_to_free_name(str(from, "/", names[moved]), path);
      if (code != 0) return system_error("cannot rename to", path, code);
    }
    return sync_directory(to);
  };
  Status status = move_rest();
  if (!status.ok()) {
    while (moved-- > 0) {
      fs::rename(str(to, "/", names[moved]), str(from, "/", names[moved]), error);
    }
    return status;
  }
  fs::remove(from, error);
  return Ok{};
}

}  // namespace

bool is_half_moved(const std::string& partial, const std::string& dir, const MoveOrder& order) {
  return !is_present(str(partial, "/", order.first)) && file_exists(str(dir, "/", order.first));
}

Status rename_directory(const std::string& partial, const std::string& dir,
                        const MoveOrder& order) {
  if (is_directory(dir)) {
    GLINT_TRY_STATUS(move_all(partial, dir, order));
  } else if (std::rename(partial.c_str(), dir.c_str()) != 0) {
    return system_error("cannot rename to", dir, errno);
  }
  const std::string parent = fs::path(dir).parent_path().string();
  return sync_directory(parent.empty() ? "." : parent);
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string absolute_name(const std::string& path) {
  const std::string plain = without_slashes(path);
  const fs::path name = fs::path(plain).filename(), parent = fs::path(plain).parent_path();
  if (name.empty()) return plain;  // "" and "/"
  std::error_code error;
  const bool is_relative = name == "." || name == "..";
  const fs::path found = is_relative ? fs::canonical(plain, error)
                                     : fs::canonical(parent.empty() ? "." : parent, error);
  if (error) return plain;
  return is_relative ? found.string() : (found / name).string();
}

namespace {

// Nothing beside a mounted file system can be renamed into it.
bool is_mount_point(const std::string& dir) {
  struct statx info = {};
  return ::statx(AT_FDCWD, dir.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &info) == 0 &&
         (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

}  // namespace

Status check_directory_name(const std::string& dir) {
  if (dir.empty()) return invalid("the directory to make has no name");
  std::error_code error;
  const fs::file_type type = fs::symlink_status(dir, error).type();
  if (type == fs::file_type::not_found) {
    const std::string parent = fs::path(dir).parent_path().string();
    if (parent.empty() || is_directory(parent)) return Ok{};
    return system_error("cannot create", dir, is_present(parent) ? ENOTDIR : ENOENT);
  }
  if (type == fs::file_type::none) return system_error("cannot create", dir, error.value());
  if (type == fs::file_type::symlink) {
    return invalid(str(dir, " is a link; name the directory that it stands for"));
  }
  if (type != fs::file_type::directory || !fs::is_empty(dir, error)) {
    return invalid(str(dir, " exists; expected a directory that is empty or yet to be made"));
  }
  if (::access(dir.c_str(), W_OK | X_OK) != 0) return system_error("cannot write to", dir, errno);
  if (!is_mount_point(dir)) return Ok{};
  return invalid(str(
      dir,
      " is a mount point, into which nothing beside it can be renamed; name a directory in it"));
}

}  // namespace glint
