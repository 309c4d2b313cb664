#include "base/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace glint {
namespace {

// The number after `key` at the start of a line of `path`.
std::optional<std::int64_t> number_in(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return std::atoll(line.c_str() + key.size());
  }
  return {};
}

}  // namespace

std::int64_t total_memory() {
  std::int64_t bytes = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  std::ifstream limit("/sys/fs/cgroup/memory.max");  // a number, or "max"
  std::int64_t most = 0;
  if (limit >> most) bytes = std::min(bytes, most);
  return bytes;
}

std::int64_t available_memory() {
  const auto estimate = number_in("/proc/meminfo", "MemAvailable:");
  std::int64_t bytes = estimate
                           ? *estimate * 1024
                           : std::int64_t{::sysconf(_SC_AVPHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  std::ifstream limit("/sys/fs/cgroup/memory.max");  // a number, or "max"
  std::int64_t most = 0;
  if (limit >> most) {
    const auto used = number_in("/sys/fs/cgroup/memory.stat", "anon ");
    bytes = std::min(bytes, std::max<std::int64_t>(most - used.value_or(0), 0));
  }
  return bytes;
}

}  // namespace glint
