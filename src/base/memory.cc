#include "base/memory.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/control_groups.h"

namespace glint {
namespace {

// The number after `key` at the start of a line of `path`.
std::optional<std::int64_t> number_in(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return std::atoll(line.c_str() + key.size());
  }
  return {};
}

// The strictest limit of the control groups, and what the fullest of them leaves, in bytes.
struct GroupMemory {
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
};

std::optional<std::int64_t> number_of(const std::string& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (file >> number) return number;  // not "max"
  return {};
}

// Pages of files can be dropped, all but those of shared memory.
void look_at_group(const std::string& dir, bool is_v1, GroupMemory& out) {
  const auto limit = number_of(dir + (is_v1 ? "/memory.limit_in_bytes" : "/memory.max"));
  if (!limit) return;
  const auto stat = [&](std::string_view key) {
    return number_in(dir + "/memory.stat", key).value_or(0);
  };
  const std::int64_t used =
      is_v1 ? stat("total_rss ") + stat("total_shmem ") : stat("anon ") + stat("shmem ");
  out.limit = std::min(out.limit, *limit);
  out.left = std::min(out.left, std::max<std::int64_t>(*limit - used, 0));
}

GroupMemory group_memory(const std::string& root) {
  GroupMemory out;
  for_each_group(root, "memory",
                 [&](const std::string& folder, bool is_v1) { look_at_group(folder, is_v1, out); });
  return out;
}

// Bytes left below RLIMIT_AS; the largest int64 if it is unlimited.
std::int64_t address_space_left() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<std::int64_t>::max();
  const auto used = number_in("/proc/self/status", "VmSize:");
  return std::max<std::int64_t>(static_cast<std::int64_t>(limit.rlim_cur) - used.value_or(0) * 1024,
                                0);
}

}  // namespace

std::int64_t total_memory(const std::string& root) {
  const std::int64_t bytes =
      root.empty() ? std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE)
                   : number_in(root + "/proc/meminfo", "MemTotal:").value_or(0) * 1024;
  return std::min(bytes, group_memory(root).limit);
}

std::int64_t available_memory(const std::string& root) {
  const auto estimate = number_in(root + "/proc/meminfo", "MemAvailable:");
  const std::int64_t bytes = estimate || !root.empty() ? estimate.value_or(0) * 1024
                                                       : std::int64_t{::sysconf(_SC_AVPHYS_PAGES)} *
                                                             ::sysconf(_SC_PAGESIZE);
  const std::int64_t left = std::min(bytes, group_memory(root).left);
  return root.empty() ? std::min(left, address_space_left()) : left;
}

void release_free_memory() { ::malloc_trim(0); }

void keep_little_memory() {
  constexpr int kMost = 1 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kMost);
  ::mallopt(M_TRIM_THRESHOLD, kMost);
}

}  // namespace glint
