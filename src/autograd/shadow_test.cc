#include "autograd/shadow.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

class ShadowTest : public testing::Test {
 protected:
  const std::unique_ptr<Device> device_ = make_host_device();
  Arena arena_{*device_};
  Shadow shadow_{arena_};
};

TEST_F(ShadowTest, a_view_has_the_same_view_of_the_gradient) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Tensor x = arena_.take_padded(dtype, {4, 256});
    const Tensor all = shadow_.of(x), tail = shadow_.of(x.last(100).slice(0, 2, 2));
    EXPECT_EQ(all.dtype, DType::kF32);
    EXPECT_EQ(all.stride, x.stride);
    EXPECT_EQ(tail.ptr<float>(), all.row<float>(2) + 156);
    EXPECT_EQ(all.ptr<float>()[0], 0);
    tail.ptr<float>()[3] = 5;
    EXPECT_EQ(all.row<float>(2)[159], 5);
  }
}

TEST_F(ShadowTest, values_side_by_side_have_gradients_side_by_side) {
  const Tensor a = arena_.take(DType::kBF16, {8, 16}), b = arena_.take(DType::kBF16, {8, 16});
  const Tensor da = shadow_.of(a), db = shadow_.of(b);
  EXPECT_GE(db.data - da.data, 8 * 16 * 4);
  const Tensor c = arena_.take(DType::kF32, {8, 16});
  EXPECT_NE(shadow_.of(c).data, da.data);
}

TEST_F(ShadowTest, memory_in_a_later_chunk_has_gradients_too) {
  arena_.take(DType::kF32, {9 << 20});
  const Tensor x = arena_.take(DType::kF32, {9 << 20});
  ASSERT_EQ(arena_.chunks().size(), 2u);
  shadow_.of(x).ptr<float>()[7] = 1;
  EXPECT_EQ(shadow_.of(x).ptr<float>()[7], 1);
}

TEST_F(ShadowTest, what_overlaps_a_live_value_is_live) {
  const Tensor x = arena_.take(DType::kF32, {4, 8}), y = arena_.take(DType::kF32, {4, 8});
  EXPECT_FALSE(shadow_.is_live(x));
  shadow_.add_to(x.slice(0, 1, 2));
  EXPECT_TRUE(shadow_.is_live(x));
  EXPECT_TRUE(shadow_.is_live(x.slice(0, 2, 2)));
  EXPECT_FALSE(shadow_.is_live(x.slice(0, 3, 1)));
  EXPECT_FALSE(shadow_.is_live(y));
  shadow_.forget_live();
  EXPECT_FALSE(shadow_.is_live(x));
}

TEST_F(ShadowTest, what_is_left_over_is_found) {
  const Tensor x = arena_.take(DType::kF32, {4}), y = arena_.take(DType::kBF16, {64});
  shadow_.of(x).ptr<float>()[3] = 2;
  EXPECT_EQ(shadow_.find_remains(x), "");
  shadow_.of(y).ptr<float>()[1] = 3;
  EXPECT_NE(shadow_.find_remains(x).find("is still 3"), std::string::npos);
  shadow_.of(y).ptr<float>()[1] = 0;
  EXPECT_NE(shadow_.find_remains({}).find("is still 2"), std::string::npos);
}

}  // namespace
}  // namespace glint
