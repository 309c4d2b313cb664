#include "base/disk_space.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/str.h"
#include "base/system_error.h"

namespace glint {

namespace fs = std::filesystem;

Status check_free_space(const std::string& path, std::int64_t bytes) {
  const fs::path parent = fs::path(path).parent_path();
  std::error_code error;
  const fs::space_info space = fs::space(parent.empty() ? "." : parent, error);
  if (error) return Ok{};  // creating the directory will say what is wrong
  const auto needed = static_cast<double>(bytes);
  if (needed <= static_cast<double>(space.available)) return Ok{};
  return exhausted(str(path, " needs ", human_bytes(needed), ", but only ",
                       human_bytes(space.available), " are free there"));
}

Status reserve_space(int fd, const std::string& path, std::int64_t bytes) {
  if (::fallocate(fd, 0, 0, bytes) == 0) return Ok{};
  if (errno == EOPNOTSUPP && ::ftruncate(fd, bytes) == 0) return Ok{};
  return system_error("cannot reserve " + human_bytes(bytes) + " for", path, errno);
}

}  // namespace glint
