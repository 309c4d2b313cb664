#include "backends/cuda/gemm/select_sm90.h"

#include <gtest/gtest.h>

namespace glint::cuda {
namespace {

constexpr int kSms = 132;  // H200

GemmTile tile_of(std::int64_t m, std::int64_t n, Epilogue epilogue = Epilogue::kBF16) {
  return select_sm90({.m = m, .n = n, .k = 6144, .epilogue = epilogue, .aligned = true}, kSms).tile;
}

TEST(SelectSm90, decode_takes_the_smallest_tile) {
  EXPECT_EQ(tile_of(1, 6144), GemmTile::k16x32);
  EXPECT_EQ(tile_of(16, 154880), GemmTile::k16x32);
}

TEST(SelectSm90, the_largest_tile_needs_enough_work_for_every_sm) {
  EXPECT_EQ(tile_of(17, 6144), GemmTile::k64x64);     // 48 large tiles
  EXPECT_EQ(tile_of(256, 6144), GemmTile::k64x64);    // 96
  EXPECT_EQ(tile_of(384, 6144), GemmTile::k128x128);  // 144
  EXPECT_EQ(tile_of(4096, 576), GemmTile::k128x128);  // 160
}

TEST(SelectSm90, gate_and_up_count_as_one_weight_of_twice_the_rows) {
  EXPECT_EQ(tile_of(256, 6144, Epilogue::kSiluMul), GemmTile::k128x128);
}

TEST(SelectSm90, unaligned_operands_get_the_kernel_without_vector_copies) {
  for (const std::int64_t m : {1, 64, 4096}) {
    const GemmConfig config = select_sm90({.m = m, .n = 6144, .k = 577}, kSms);
    EXPECT_EQ(config, (GemmConfig{GemmTile::k64x64, false}));
  }
}

}  // namespace
}  // namespace glint::cuda
