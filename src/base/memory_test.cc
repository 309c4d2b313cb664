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

TEST(Memory, the_fullest_of_nested_groups_says_what_is_left) {
  for (const bool is_v1 : {false, true}) {
    const FakeRoot files;
    files.write("/proc/meminfo", "MemTotal:  8388608 kB\nMemAvailable:  8388608 kB\n");
    files.write("/proc/self/cgroup", is_v1 ? "4:memory:/outer/inner\n" : "0::/outer/inner\n");
    const std::string outer = is_v1 ? "/sys/fs/cgroup/memory/outer" : "/sys/fs/cgroup/outer";
    const std::string limit = is_v1 ? "/memory.limit_in_bytes" : "/memory.max";
    const auto stat = [&](const std::string& dir, int anon, int shmem) {
      files.write(dir + "/memory.stat",
                  is_v1 ? str("rss 0\ntotal_rss ", anon, "\ntotal_shmem ", shmem, "\n")
                        : str("anon ", anon, "\nfile 99\nshmem ", shmem, "\nshmem_thp 7\n"));
    };
    files.write(outer + "/inner" + limit, "500\n");
    files.write(outer + limit, "1000\n");
    stat(outer + "/inner", 10, 20);
    stat(outer, 200, 50);
    EXPECT_EQ(available_memory(files.root), 470) << is_v1;
    stat(outer, 900, 50);
    EXPECT_EQ(available_memory(files.root), 50) << is_v1;
    EXPECT_EQ(total_memory(files.root), 500) << is_v1;
    stat(outer, 900, 200);
    EXPECT_EQ(available_memory(files.root), 0) << is_v1;
  }
}

}  // namespace
}  // namespace glint
