#include "base/control_groups.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

namespace glint {

void for_each_group(const std::string& root, std::string_view controller,
                    const std::function<void(const std::string& folder, bool is_v1)>& look) {
  const std::string mounts = root + "/sys/fs/cgroup";
  look(mounts, false);
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,cpuacct:/docker/12", "0::/user"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string name(controller);
    const bool is_v1 = names.find("," + name + ",") != names.npos;
    if (!is_v1 && names != ",,") continue;
    const std::string mount = is_v1 ? mounts + "/" + name : mounts;
    for (std::string path = line.substr(second + 1);; path.erase(path.rfind('/'))) {
      look(mount + path, is_v1);
      if (path.find('/') == path.npos) break;
    }
  }
}

int quota_cpus(const std::string& root) {
  int cpus = std::numeric_limits<int>::max();
  for_each_group(root, "cpu", [&](const std::string& folder, bool is_v1) {
    // "200000 100000": microseconds of CPU time per period, or "max 100000"; version 1 has files
    // for both, and -1 for none.
    std::ifstream quota(folder + (is_v1 ? "/cpu.cfs_quota_us" : "/cpu.max"));
    std::ifstream of_v1(folder + "/cpu.cfs_period_us");
    double time = 0, period = 0;
    if (!(quota >> time) || !((is_v1 ? of_v1 : quota) >> period) || time <= 0 || period <= 0)
      return;
    cpus = static_cast<int>(std::min<double>(cpus, std::ceil(time / period)));
  });
  return cpus;
}

}  // namespace glint
