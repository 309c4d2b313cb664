#include "doctor/machine_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "base/owned_fd.h"
#include "base/parse_number.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxNames = 65536;

}  // namespace

bool MachineFiles::exists(std::string_view path) const {
  return ::access(at(path).c_str(), F_OK) == 0;
}

// Files of /proc have no size, so they are read until they end. Only regular files are: a pipe
// would wait.
std::string MachineFiles::text(std::string_view path) const {
  const OwnedFd file(::open(at(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info = {};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  std::string out;
  char piece[4096];
  for (ssize_t n; out.size() < kMaxBytes && (n = ::read(file.get(), piece, sizeof piece)) > 0;) {
    out.append(piece, static_cast<std::size_t>(n));
  }
  return out;
}

std::string MachineFiles::line(std::string_view path) const {
  const std::string all = text(path);
  return std::string(trimmed(std::string_view(all).substr(0, all.find('\n'))));
}

std::optional<std::int64_t> MachineFiles::number(std::string_view path) const {
  return parse_number<std::int64_t>(line(path));
}

std::vector<std::string> MachineFiles::names(std::string_view folder) const {
  std::vector<std::string> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(at(folder).c_str()), ::closedir);
  if (!dir) return out;
  while (const dirent* const entry = ::readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && out.size() < kMaxNames) out.emplace_back(name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string MachineFiles::link(std::string_view path) const {
  char target[4096];
  const ssize_t length = ::readlink(at(path).c_str(), target, sizeof target);
  return length < 0 ? std::string() : std::string(target, static_cast<std::size_t>(length));
}

std::optional<std::int64_t> MachineFiles::number_after(std::string_view path,
                                                       std::string_view key) const {
  const std::string all = text(path);
  for (const std::string_view line : split(all, '\n')) {
    if (!line.starts_with(key)) continue;
    const std::vector<std::string_view> words = words_of(line.substr(key.size()));
    if (!words.empty()) return parse_number<std::int64_t>(words[0]);
  }
  return {};
}

}  // namespace glint
