#include "backends/cuda/linear/choose_kernel.h"

#include <gtest/gtest.h>

namespace glint::cuda {
namespace {

constexpr int kSms = 132;  // H200

Kernel of(std::int64_t m, std::int64_t n, std::int64_t k) {
  return choose_kernel({.m = m, .n = n, .k = k}, kSms);
}
Kernel of_experts(std::int64_t m) {
  return choose_kernel({.m = m, .n = 256, .k = 6144, .matrices = 256, .grouped = true}, kSms);
}

TEST(ChooseKernel, few_rows_stream_the_weights) {
  EXPECT_EQ(of(1, 6144, 2048), Kernel::kHeld8);
  EXPECT_EQ(of(8, 154880, 6144), Kernel::kPassed8) << "x of eight rows is too long to be held";
  EXPECT_EQ(of(9, 576, 6144), Kernel::kCluster32);
}

TEST(ChooseKernel, a_cluster_shares_k_until_every_sm_has_a_tile) {
  EXPECT_EQ(of(32, 154880, 6144), Kernel::kCluster32);
  EXPECT_EQ(of(33, 2048, 6144), Kernel::kWideSplit);
  EXPECT_EQ(of(1024, 2048, 6144), Kernel::kWideSplit);  // 128 tiles
  EXPECT_EQ(of(1088, 2048, 6144), Kernel::kWide);       // 144
  EXPECT_EQ(of(33, 154880, 6144), Kernel::kWide);
}

TEST(ChooseKernel, experts_go_by_the_rows_of_each) {
  EXPECT_EQ(of_experts(8), Kernel::kPassed8);
  EXPECT_EQ(of_experts(256 * 4), Kernel::kPassed8);
  EXPECT_EQ(of_experts(256 * 5), Kernel::kCluster32);
  EXPECT_EQ(of_experts(256 * 33), Kernel::kTile);
  EXPECT_EQ(of_experts(256 * 65), Kernel::kWide);
}

TEST(Slices, cover_k_and_depend_on_it_alone) {
  for (std::int64_t k = 1; k < 20000; k += 77) {
    const Slices slices = slices_of(k);
    EXPECT_GE(std::int64_t{slices.count} * slices.steps * kStep, k);
    EXPECT_EQ(8 % slices.count, 0) << "warps of a thread block";
  }
  EXPECT_EQ(slices_of(6144).count, 8);
  EXPECT_EQ(slices_of(256).count, 1);
}

}  // namespace
}  // namespace glint::cuda
