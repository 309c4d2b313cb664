#include "backends/cuda/comm/choose_way.h"

#include <gtest/gtest.h>

#include <vector>

namespace glint::cuda {
namespace {

// Ranks of one machine whose GPUs all reach each other.
std::vector<Reach> ranks(int size) {
  std::vector<Reach> all;
  for (int r = 0; r < size; ++r)
    all.push_back({.host = 5, .gpu = 100u + static_cast<unsigned>(r), .peers = ~0u, .nccl = 22809});
  return all;
}

Way way(const std::vector<Reach>& all, bool use_windows = true) {
  const auto chosen = choose_way(all, use_windows);
  EXPECT_TRUE(chosen.ok());
  return chosen.value();
}

TEST(ChooseWay, is_windows_where_all_gpus_of_a_machine_reach_each_other) {
  for (const int size : {2, 3, 4, 8}) EXPECT_EQ(way(ranks(size)), Way::kWindows);
  EXPECT_EQ(way(ranks(1)), Way::kAlone);
}

TEST(ChooseWay, is_nccl_where_windows_cannot_be) {
  EXPECT_EQ(way(ranks(9)), Way::kNccl);
  EXPECT_EQ(way(ranks(2), false), Way::kNccl);
  auto two_machines = ranks(4);
  two_machines[3].host = 6;
  EXPECT_EQ(way(two_machines), Way::kNccl);
  auto apart = ranks(4);
  apart[2].peers = 0b0110;  // its own, and its neighbour's
  EXPECT_EQ(way(apart), Way::kNccl);
  auto old = ranks(2);
  for (Reach& rank : old) rank.nccl = 21805;
  EXPECT_EQ(way(old), Way::kNccl);
}

TEST(ChooseWay, is_the_host_without_nccl) {
  auto without = ranks(2);
  for (Reach& rank : without) rank.nccl = 0;
  EXPECT_EQ(way(without), Way::kHost);
}

TEST(ChooseWay, refuses_what_cannot_work) {
  auto shared = ranks(3);
  shared[2].gpu = shared[0].gpu;
  EXPECT_NE(choose_way(shared, true).error().message.find("ranks 0 and 2 have the same GPU"),
            std::string::npos);
  auto mixed = ranks(2);
  mixed[1].nccl = 0;
  EXPECT_NE(choose_way(mixed, true).error().message.find("different versions of NCCL"),
            std::string::npos);
}

}  // namespace
}  // namespace glint::cuda
