#include "base/cpu_nodes.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "base/test_dir.h"

namespace glint {
namespace {

using Nodes = std::vector<std::vector<int>>;

class CpuNodes : public testing::Test {
 protected:
  void add(const std::string& name, const std::string& list) {
    dir_.write(name + "/cpulist", list + "\n");
  }
  Nodes nodes(const std::vector<int>& usable) const { return cpu_nodes(usable, dir_.path()); }

 private:
  const TestDir dir_;
};

TEST(CpuList, is_read) {
  EXPECT_EQ(read_cpu_list("0-3,8,10-11\n"), (std::vector{0, 1, 2, 3, 8, 10, 11}));
  for (const char* const bad : {"", "\n", "x", "3-1", "0-99999999999", "1,,2", "-1", "0-1024"})
    EXPECT_TRUE(read_cpu_list(bad).empty()) << bad;
}

TEST_F(CpuNodes, are_those_with_usable_cpus) {
  add("node0", "0-3,8-11");
  add("node1", "4-7,12-15");
  add("node2", "");  // memory alone
  add("node10", "16");
  EXPECT_EQ(nodes({1, 3, 8, 4, 16}), (Nodes{{1, 3, 8}, {4}, {16}}));
  EXPECT_EQ(nodes({5, 12}), (Nodes{{5, 12}}));
  EXPECT_EQ(nodes({}), Nodes{});
  EXPECT_EQ(cpu_nodes({0}, "/there/is/none"), Nodes{});
}

TEST(CpusOfRank, are_of_nodes_of_its_own) {
  const Nodes two = {{0, 1}, {2, 3}}, four = {{0}, {1}, {2}, {3}};
  EXPECT_EQ(cpus_of_rank(two, 0, 2), (std::vector{0, 1}));
  EXPECT_EQ(cpus_of_rank(two, 1, 2), (std::vector{2, 3}));
  EXPECT_EQ(cpus_of_rank(two, 1, 4), (std::vector{0, 1}));
  EXPECT_EQ(cpus_of_rank(two, 2, 4), (std::vector{2, 3}));
  EXPECT_EQ(cpus_of_rank(four, 1, 2), (std::vector{2, 3}));
}

TEST(CpusOfRank, are_all_where_nodes_do_not_divide) {
  EXPECT_TRUE(cpus_of_rank({{0, 1}, {2, 3}}, 0, 3).empty());
  EXPECT_TRUE(cpus_of_rank({{0}, {1}, {2}}, 0, 2).empty());
  EXPECT_TRUE(cpus_of_rank({{0, 1}}, 0, 2).empty());
  EXPECT_TRUE(cpus_of_rank({{0, 1}, {2, 3}}, 0, 1).empty());
  EXPECT_TRUE(cpus_of_rank({}, 0, 2).empty());
}

TEST(CpusOfRank, hold_the_threads_that_are_started_then) {
  const std::vector<int> all = cpus_at_start();
  ASSERT_FALSE(all.empty());
  std::thread([&] {
    ASSERT_TRUE(keep_to_cpus({all.back()}));
    cpu_set_t set;
    std::thread([&] { ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0); }).join();
    EXPECT_EQ(CPU_COUNT(&set), 1);
    EXPECT_TRUE(CPU_ISSET(all.back(), &set));
    EXPECT_EQ(cpus_at_start(), all);
    EXPECT_TRUE(keep_to_cpus({}));
    EXPECT_FALSE(keep_to_cpus({CPU_SETSIZE - 1}));
  }).join();
}

}  // namespace
}  // namespace glint
