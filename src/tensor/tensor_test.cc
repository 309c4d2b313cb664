#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <vector>

namespace glint {
namespace {

TEST(Tensor, views_share_memory) {
  std::vector<float> memory(2 * 12);
  for (int i = 0; i < 24; ++i) memory[i] = static_cast<float>(i);
  const Tensor x(memory.data(), DType::kF32, {2, 12});
  const Tensor heads = x.heads(3);
  EXPECT_EQ(heads.rank, 3);
  EXPECT_EQ(heads.dim(1), 3);
  EXPECT_EQ(heads.dim(-1), 4);
  const Tensor tail = heads.last(2);
  EXPECT_EQ(tail.row<float>(1)[tail.stride[1]], 12 + 4 + 2);
  EXPECT_TRUE(heads.is_dense());
  EXPECT_FALSE(tail.is_dense());
  EXPECT_EQ(heads.flat().dim(1), 12);
  EXPECT_EQ(x.slice(0, 1, 1).row<float>(0)[0], 12);
  EXPECT_EQ(x.describe(), "F32 [2, 12]");
}

TEST(TensorDeath, impossible_views_abort) {
  float memory[6] = {};
  const Tensor x(memory, DType::kF32, {2, 3});
  EXPECT_DEATH(x.first(4), "slice");
  EXPECT_DEATH(x.heads(2), "heads");
  EXPECT_DEATH(x.heads(1).first(2).flat(), "flatten");
  EXPECT_DEATH(x.ptr<BF16>(), "tensor holds F32");
}

}  // namespace
}  // namespace glint
