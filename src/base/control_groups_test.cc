#include "base/control_groups.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/fake_root.h"

namespace glint {
namespace {

TEST(ControlGroups, the_strictest_quota_of_a_group_and_those_around_it_holds) {
  const FakeRoot files;
  EXPECT_EQ(quota_cpus(files.root), std::numeric_limits<int>::max());
  files.write("/proc/self/cgroup", "0::/system.slice/glint.service\n");
  files.write("/sys/fs/cgroup/system.slice/cpu.max", "max 100000\n");
  EXPECT_EQ(quota_cpus(files.root), std::numeric_limits<int>::max());
  files.write("/sys/fs/cgroup/system.slice/glint.service/cpu.max", "250000 100000\n");
  EXPECT_EQ(quota_cpus(files.root), 3);

  // Version 1, in a container: the path is the host's, and not there.
  files.write("/proc/self/cgroup", "3:cpu,cpuacct:/docker/12\n2:cpuset:/docker/12\n");
  files.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n");
  files.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota_cpus(files.root), std::numeric_limits<int>::max());
  files.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(quota_cpus(files.root), 2);
}

}  // namespace
}  // namespace glint
