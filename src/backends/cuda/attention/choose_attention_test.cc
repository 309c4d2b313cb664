#include "backends/cuda/attention/choose_attention.h"

#include <gtest/gtest.h>

namespace glint::cuda {
namespace {

constexpr int kTargets[] = {80, 86, 87, 89, 90, 100, 103, 120, 121};
constexpr std::int64_t kTopk = 2048;

TEST(ChooseMla, every_choice_fits_its_device) {
  for (const int target : kTargets) {
    const Arch arch = arch_of(target);
    for (const bool fp8 : {false, true}) {
      for (std::int64_t tokens = 1; tokens <= 300; ++tokens) {
        for (const std::int64_t heads : {8, 16, 64}) {
          for (const std::int64_t k : {std::int64_t{64}, kTopk, 2 * kTopk}) {
            const mla512::Kernel kernel = mla512::choose_kernel({tokens, heads, k, fp8}, arch, 170);
            if (kernel.way != mla512::Way::kCluster) continue;
            EXPECT_LE(mla512::shared_bytes(fp8, kernel.stages, kernel.parts), arch.shared_bytes)
                << target << ", " << tokens << " tokens, " << heads << " heads";
          }
        }
      }
    }
  }
}

TEST(ChooseMla, a_row_is_summed_alike_in_any_batch_without_clusters) {
  for (const int target : {80, 86, 89}) {
    for (const std::int64_t tokens : {1, 16, 127, 128, 1000}) {
      const auto kernel = mla512::choose_kernel({tokens, 8, kTopk, true}, arch_of(target), 108);
      EXPECT_EQ(kernel.way, mla512::Way::kOneBlock) << target << ", " << tokens << " tokens";
    }
  }
}

TEST(ChooseMla, hoppers_clusters_are_of_the_sizes_there_is_room_for) {
  const auto of = [](std::int64_t tokens, bool fp8) {
    return mla512::choose_kernel({tokens, 8, kTopk, fp8}, arch_of(90), 132);
  };
  EXPECT_EQ(of(1, true), (mla512::Kernel{.way = mla512::Way::kFewTokens}));
  EXPECT_EQ(of(4, true), (mla512::Kernel{.way = mla512::Way::kFewTokens}));
  EXPECT_EQ(of(2, false), (mla512::Kernel{.way = mla512::Way::kFewTokens}));
  EXPECT_EQ(of(3, false), (mla512::Kernel{.stages = 5}));
  EXPECT_EQ(of(16, true), (mla512::Kernel{.stages = 7}));
  EXPECT_EQ(of(31, true), (mla512::Kernel{.stages = 3}));
  EXPECT_EQ(of(32, true), (mla512::Kernel{.stages = 2, .parts = 2}));
  EXPECT_EQ(of(53, false), (mla512::Kernel{.stages = 4, .parts = 4}));
  EXPECT_EQ(of(67, false), (mla512::Kernel{.stages = 2}));
  EXPECT_EQ(of(128, true), (mla512::Kernel{.way = mla512::Way::kOneBlock}));
}

TEST(ChooseTopKeys, every_choice_fits_its_device) {
  for (const int target : kTargets) {
    const Arch arch = arch_of(target);
    for (const std::int64_t tokens : {1, 131, 132, 8192}) {
      for (std::int64_t keys = 1024; keys <= 1 << 20; keys += 512) {
        const auto kernel = top_keys::choose_kernel(tokens, keys, arch, 132);
        ASSERT_LE(kernel.capacity, top_keys::keys_of_block(arch)) << target << ", " << keys;
        EXPECT_TRUE(kernel.capacity == 0 || kernel.capacity * kernel.blocks >= keys);
        EXPECT_LE(kernel.blocks, top_keys::most_blocks(arch));
      }
    }
  }
}

TEST(ChooseTopKeys, many_tokens_have_a_block_each_as_far_as_it_holds_their_keys) {
  using top_keys::choose_kernel, top_keys::Kernel;
  EXPECT_EQ(choose_kernel(200, 24576, arch_of(90), 132), (Kernel{1, 24576}));
  EXPECT_EQ(choose_kernel(200, 24577, arch_of(90), 132), (Kernel{2, 12289}));
  EXPECT_EQ(choose_kernel(200, 24576, arch_of(120), 132), (Kernel{2, 12288}));
  EXPECT_EQ(choose_kernel(1, 24576, arch_of(90), 132), (Kernel{8, 3072}));
  EXPECT_EQ(choose_kernel(1, 39680, arch_of(80), 108), (Kernel{1, 39680}));
  EXPECT_EQ(choose_kernel(1, 39681, arch_of(80), 108), (Kernel{1, 0}));
}

}  // namespace
}  // namespace glint::cuda
