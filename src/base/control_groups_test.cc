#include "base/control_groups.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace glint {
namespace {

TEST(ControlGroups, the_strictest_quota_of_a_group_and_those_around_it_holds) {
  namespace fs = std::filesystem;
  const std::string root = testing::TempDir() + "glint-groups-root";
  fs::remove_all(root);
  const auto write = [&](const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  };
  EXPECT_EQ(quota_cpus(root), std::numeric_limits<int>::max());
  write("/proc/self/cgroup", "0::/system.slice/glint.service\n");
  write("/sys/fs/cgroup/system.slice/cpu.max", "max 100000\n");
  EXPECT_EQ(quota_cpus(root), std::numeric_limits<int>::max());
  write("/sys/fs/cgroup/system.slice/glint.service/cpu.max", "250000 100000\n");
  EXPECT_EQ(quota_cpus(root), 3);

  // Version 1, in a container: the path is the host's, and not there.
  write("/proc/self/cgroup", "3:cpu,cpuacct:/docker/12\n2:cpuset:/docker/12\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota_cpus(root), std::numeric_limits<int>::max());
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(quota_cpus(root), 2);
  fs::remove_all(root);
}

}  // namespace
}  // namespace glint
