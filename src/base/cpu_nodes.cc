#include "base/cpu_nodes.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/contains.h"
#include "base/file.h"
#include "base/parse_number.h"
#include "base/str.h"

namespace glint {
namespace {

std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

bool read_number(std::string_view text, int& number) {
  number = parse_number<int>(text).value_or(-1);
  return number >= 0;
}

}  // namespace

std::vector<int> read_cpu_list(std::string_view list) {
  if (list.ends_with('\n')) list.remove_suffix(1);
  std::vector<int> cpus;
  for (const std::string_view part : split(list, ',')) {
    const std::size_t dash = part.find('-');
    int first = 0, last = 0;
    if (!read_number(part.substr(0, dash), first)) return {};
    if (!read_number(dash == part.npos ? part : part.substr(dash + 1), last)) return {};
    if (first > last || last >= CPU_SETSIZE) return {};
    for (; first <= last; ++first) cpus.push_back(first);
  }
  return cpus;
}

const std::vector<int>& cpus_at_start() {
  static const std::vector<int> cpus = usable_cpus();
  return cpus;
}

std::vector<std::vector<int>> cpu_nodes(const std::vector<int>& usable, const std::string& dir) {
  std::map<int, std::vector<int>> nodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename();
    int number = 0;
    if (!name.starts_with("node") || !read_number(std::string_view(name).substr(4), number))
      continue;
    const Result<std::string> list = read_file(entry.path() / "cpulist", 1 << 16);
    if (!list.ok()) continue;
    for (const int cpu : read_cpu_list(list.value())) {
      if (contains(usable, cpu)) nodes[number].push_back(cpu);
    }
  }
  std::vector<std::vector<int>> all;
  for (auto& [number, cpus] : nodes) all.push_back(std::move(cpus));
  return all;
}

std::vector<int> cpus_of_rank(const std::vector<std::vector<int>>& nodes, int rank, int ranks) {
  const int count = static_cast<int>(nodes.size());
  if (count < 2 || ranks < 2 || (ranks % count != 0 && count % ranks != 0)) return {};
  const int each = std::max(count / ranks, 1);
  const int first = rank * count / ranks;
  std::vector<int> cpus;
  for (int node = first; node < first + each; ++node) {
    const auto& of_node = nodes[static_cast<std::size_t>(node)];
    cpus.insert(cpus.end(), of_node.begin(), of_node.end());
  }
  return cpus;
}

bool keep_to_cpus(const std::vector<int>& cpus) {
  if (cpus.empty()) return true;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace glint
