#include "base/memory.h"

#include <gtest/gtest.h>

#include "base/fake_root.h"

namespace glint {
namespace {

TEST(Memory, some_of_all_is_available) {
  EXPECT_GT(available_memory(), 0);
  EXPECT_LE(available_memory(), total_memory());
}

TEST(Memory, below_a_root_it_is_what_the_files_there_say) {
  const FakeRoot files;
  files.write("/proc/meminfo", "MemTotal:  8388608 kB\nMemAvailable:  4194304 kB\n");
  EXPECT_EQ(total_memory(files.root), std::int64_t{8} << 30);
  EXPECT_EQ(available_memory(files.root), std::int64_t{4} << 30);
  files.write("/proc/self/cgroup", "0::/group\n");
  files.write("/sys/fs/cgroup/group/memory.max", "2147483648\n");
  files.write("/sys/fs/cgroup/group/memory.stat", "anon 1073741824\nfile 7\n");
  EXPECT_EQ(total_memory(files.root), std::int64_t{2} << 30);
  EXPECT_EQ(available_memory(files.root), std::int64_t{1} << 30);
}

}  // namespace
}  // namespace glint
