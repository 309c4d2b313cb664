#include "backends/cuda/linear/choose_kernel.h"

#include <gtest/gtest.h>

namespace glint::cuda {
namespace {

constexpr Arch kA100 = arch_of(80), kL40 = arch_of(89), kHopper = arch_of(90), kB200 = arch_of(100),
               kRtxPro = arch_of(120);
constexpr int kSms = 132;  // H200

ProductShape experts(std::int64_t m) {
  return {.m = m, .n = 256, .k = 6144, .matrices = 256, .grouped = true};
}
Kernel of(const Arch& arch, const ProductShape& shape) { return choose_kernel(shape, arch, kSms); }
Kernel of(std::int64_t m, std::int64_t n, std::int64_t k) {
  return of(kHopper, {.m = m, .n = n, .k = k});
}

TEST(ChooseKernel, few_rows_stream_the_weights) {
  EXPECT_EQ(of(1, 6144, 2048), Kernel::kFew8);
  EXPECT_EQ(of(8, 154880, 6144), Kernel::kFew8);
}

TEST(ChooseKernel, eight_rows_at_a_time_while_two_blocks_an_sm_do_them_all) {
  EXPECT_EQ(of(16, 2048, 6144), Kernel::kFew8);  // 256 blocks
  EXPECT_EQ(of(17, 2048, 6144), Kernel::kCluster32);
  EXPECT_EQ(of(56, 576, 6144), Kernel::kFew8);  // 252
  EXPECT_EQ(of(57, 576, 6144), Kernel::kHalfWide);
  EXPECT_EQ(of(128, 256, 6144), Kernel::kFew8);
  EXPECT_EQ(of(129, 256, 6144), Kernel::kWide);
  const ProductShape heads = {.m = 128, .n = 256, .k = 512, .matrices = 8};
  EXPECT_EQ(of(kHopper, heads), Kernel::kFew8);
}

TEST(ChooseKernel, a_cluster_shares_k_until_half_of_the_sms_have_a_tile) {
  EXPECT_EQ(of(32, 154880, 6144), Kernel::kCluster32);
  EXPECT_EQ(of(32, 2048, 6144), Kernel::kCluster32);
  EXPECT_EQ(of(33, 2048, 6144), Kernel::kHalfWide);
  EXPECT_EQ(of(64, 2048, 6144), Kernel::kHalfWide);
  EXPECT_EQ(of(65, 2048, 6144), Kernel::kWidePairs);
  EXPECT_EQ(of(512, 2048, 6144), Kernel::kWidePairs);  // 64 tiles
  EXPECT_EQ(of(513, 2048, 6144), Kernel::kFlow);       // 80
  EXPECT_EQ(of(33, 154880, 6144), Kernel::kFlow);
}

TEST(ChooseKernel, clusters_that_do_not_all_find_room_are_halved) {
  EXPECT_EQ(of(128, 15 * 128, 6144), Kernel::kWide);
  EXPECT_EQ(of(128, 16 * 128, 6144), Kernel::kWidePairs);
  EXPECT_EQ(of(128, 31 * 128, 2048), Kernel::kWide);
  EXPECT_EQ(of(128, 32 * 128, 2048), Kernel::kWidePairs);
  EXPECT_EQ(of(128, 6144, 256), Kernel::kWide);  // a slice alone needs no cluster
}

TEST(ChooseKernel, experts_go_by_the_rows_of_each) {
  EXPECT_EQ(of(kHopper, experts(8)), Kernel::kFew8);
  EXPECT_EQ(of(kHopper, experts(256 * 8)), Kernel::kFew8);
  EXPECT_EQ(of(kHopper, experts(256 * 9)), Kernel::kCluster32);
  EXPECT_EQ(of(kHopper, experts(256 * 32)), Kernel::kCluster32);
  EXPECT_EQ(of(kHopper, experts(256 * 33)), Kernel::kFlow);
}

TEST(ChooseKernel, without_warpgroup_instructions_many_rows_go_in_tiles) {
  for (const Arch& arch : {kA100, kL40, kB200, kRtxPro}) {
    EXPECT_EQ(of(arch, {.m = 8, .n = 6144, .k = 12288}), Kernel::kFew8);
    EXPECT_EQ(of(arch, {.m = 16, .n = 2048, .k = 6144}), Kernel::kFew8);
    EXPECT_EQ(of(arch, {.m = 33, .n = 2048, .k = 6144}), Kernel::kTile);
    EXPECT_EQ(of(arch, {.m = 4096, .n = 2048, .k = 6144}), Kernel::kTile);
    EXPECT_EQ(of(arch, experts(256 * 65)), Kernel::kTile);
  }
}

TEST(ChooseKernel, without_clusters_or_the_memory_for_them_tiles_come_next) {
  for (const Arch& arch : {kA100, kL40}) {
    EXPECT_EQ(of(arch, {.m = 17, .n = 2048, .k = 6144}), Kernel::kTile);
    EXPECT_EQ(of(arch, experts(256 * 9)), Kernel::kTile);
  }
  for (const Arch& arch : {kB200, kRtxPro}) {
    EXPECT_EQ(of(arch, {.m = 17, .n = 2048, .k = 6144}), Kernel::kCluster32);
  }
  EXPECT_EQ(of(kB200, {.m = 9, .n = 6144, .k = 12288}), Kernel::kCluster32);
  EXPECT_EQ(of(kRtxPro, {.m = 9, .n = 6144, .k = 12288}), Kernel::kTile) << "of 99 KiB";
}

TEST(ChooseKernel, rows_that_begin_anywhere_are_copied_element_by_element) {
  const ProductShape one = {.m = 1, .n = 100, .k = 1001, .aligned = false};
  EXPECT_EQ(of(kHopper, one), Kernel::kCluster32);
  EXPECT_EQ(of(kA100, one), Kernel::kTile);
}

TEST(ChooseKernel, what_is_chosen_is_compiled) {
  for (const int capability : {80, 86, 89, 90, 100, 103, 120, 121}) {
    const Arch arch = arch_of(capability);
    for (const int target : {80, 89, 90, 100, 103, 120}) {
      if (target / 10 != capability / 10 || target > capability) continue;
      for (std::int64_t k = 16; k <= kLongest; k += 1000) {
        for (const std::int64_t m : {1, 8, 9, 32, 33, 64, 65, 5000}) {
          for (const bool aligned : {false, true}) {
            for (const int matrices : {1, 8}) {
              const ProductShape shape = {.m = m * matrices,
                                          .n = 2048,
                                          .k = k,
                                          .matrices = matrices,
                                          .grouped = matrices > 1,
                                          .aligned = aligned};
              EXPECT_TRUE(is_ever_chosen(of(arch, shape), aligned, arch_of(target)))
                  << capability << " " << target << " " << m << " " << k;
            }
          }
        }
      }
    }
  }
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
