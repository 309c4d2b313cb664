#include "base/file_beside.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>

#include "base/parse_number.h"
#include "base/str.h"
#include "base/system_error.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kInfix = ".tmp.";

// 0: the name is none that create_beside() gives beside `name`.
pid_t writer_of(std::string_view found, std::string_view name) {
  if (!found.starts_with(name)) return 0;
  found.remove_prefix(name.size());
  if (!found.starts_with(kInfix)) return 0;
  found.remove_prefix(kInfix.size());
  const pid_t pid = parse_number<pid_t>(found).value_or(0);
  return pid > 0 && std::to_string(pid) == found ? pid : 0;
}

bool is_gone(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

void remove_unlocked(const fs::path& path) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info = {};
  if (file && ::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) &&
      ::flock(file.get(), LOCK_EX | LOCK_NB) == 0)
    ::unlink(path.c_str());
}

void remove_left(const fs::path& path) {
  const std::string name = path.filename().string();
  const fs::path folder = path.parent_path();
  std::error_code error;
  fs::directory_iterator entry(folder.empty() ? "." : folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const pid_t pid = writer_of(entry->path().filename().string(), name);
    if (pid != 0 && is_gone(pid)) remove_unlocked(entry->path());
  }
}

bool is_named(const OwnedFd& file, const std::string& path) {
  struct stat own = {}, named = {};
  return ::fstat(file.get(), &own) == 0 && ::stat(path.c_str(), &named) == 0 &&
         own.st_ino == named.st_ino && own.st_dev == named.st_dev;
}

// Locks before it empties: a process of another container may have the same id, and its file this
// name, until it renames it. Where there are no locks, others remove nothing.
Result<OwnedFd> open_locked(const std::string& path) {
  for (;;) {
    OwnedFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    if (!file) return system_error("cannot create", path, errno);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      return invalid(path + " is being written by another process; wait until it has ended");
    if (!is_named(file, path)) continue;
    if (::ftruncate(file.get(), 0) == 0) return file;
    return system_error("cannot empty", path, errno);
  }
}

}  // namespace

Result<FileBeside> create_beside(const std::string& path) {
  remove_left(path);
  FileBeside out = {.path = str(path, kInfix, ::getpid()), .file = OwnedFd()};
  GLINT_TRY(out.file, open_locked(out.path));
  return out;
}

}  // namespace glint
