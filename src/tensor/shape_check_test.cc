#include "tensor/shape_check.h"

#include <gtest/gtest.h>

#include <vector>

namespace glint {
namespace {

class ShapeCheckTest : public testing::Test {
 protected:
  Tensor floats(std::initializer_list<std::int64_t> dims) {
    return Tensor(memory_.data(), DType::kF32, dims);
  }

  std::vector<float> memory_ = std::vector<float>(4096);
  ShapeCheck check_{"an_op"};
};

TEST_F(ShapeCheckTest, equal_dims_match_and_can_be_read_back) {
  check_.dense("x", floats({8, 16}), kFloats, {"T", "D"});
  check_.strided("y", floats({8, 32}).first(16), DType::kF32, {"T", "D"});
  check_.size("2 D", 32, "twice x[1]");
  check_.dense("z", floats({32}), kFloats, {"2 D"});
  EXPECT_EQ(check_["T"], 8);
  EXPECT_EQ(check_["D"], 16);
}

using ShapeCheckDeath = ShapeCheckTest;

TEST_F(ShapeCheckDeath, a_wrong_dim_names_the_argument_that_bound_it) {
  check_.dense("q", floats({8, 16}), kFloats, {"T", "D"});
  EXPECT_DEATH(check_.dense("indices", floats({7, 4}), kFloats, {"T", "k"}),
               "an_op: indices\\[0\\] is 7, but T is 8 \\(from q\\[0\\]\\)");
  check_.size("D/2", 8, "half of q[1]");
  EXPECT_DEATH(check_.dense("cos", floats({8, 9}), kFloats, {"T", "D/2"}),
               "cos\\[1\\] is 9, but D/2 is 8 \\(from half of q\\[1\\]\\)");
}

TEST_F(ShapeCheckDeath, wrong_ranks_types_and_strides_are_named) {
  EXPECT_DEATH(check_.dense("x", {}, kFloats, {"T"}), "an_op: x is not given");
  EXPECT_DEATH(check_.dense("x", floats({8}), kFloats, {"T", "D"}), "must have 2 dims");
  EXPECT_DEATH(check_.dense("x", floats({8}), DType::kI32, {"T"}),
               "x is F32 \\[8\\], but must hold I32");
  EXPECT_DEATH(check_.dense("x", floats({8, 4}).first(2), kFloats, {"T", "D"}), "must be dense");
  Tensor transposed = floats({4, 4});
  std::swap(transposed.stride[0], transposed.stride[1]);
  EXPECT_DEATH(check_.strided("x", transposed, kFloats, {"T", "D"}), "stride 4");
  EXPECT_DEATH(check_["Q"], "no argument has a dim Q");
}

TEST_F(ShapeCheckDeath, weights_and_stacks_must_have_the_dims_of_the_product) {
  const Weight w = {.format = WeightFormat::kF32, .rows = 8, .cols = 4, .data = floats({8, 4})};
  check_.strided("x", floats({3, 4}), kFloats, {"T", "K"});
  check_.weight("w", w, "N", "K");
  check_.weights("all", stack_of(w, 5, 128), "N", "K");
  EXPECT_DEATH(check_.weight("w", w, "K", "N"), "w\\[0\\] is 8, but K is 4 \\(from x\\[1\\]\\)");
  EXPECT_DEATH(check_.weights("all", stack_of(w, 5, 128), "T", "K"),
               "all\\[1\\] is 8, but T is 3 \\(from x\\[0\\]\\)");
  EXPECT_DEATH(check_.weights("all", {}, "N", "K"), "all are not given");
}

TEST_F(ShapeCheckDeath, weights_must_have_their_formats_types_and_scales) {
  Weight w = {.format = WeightFormat::kFp8Block,
              .rows = 130,
              .cols = 10,
              .data = Tensor(memory_.data(), DType::kF8E4M3, {130, 10}),
              .scale = floats({2, 1})};
  check_weight("w", w);
  w.scale = floats({1, 1});
  EXPECT_DEATH(check_weight("w", w), "scale of w is F32 \\[1, 1\\], but must be F32 \\[2, 1\\]");
  w.format = WeightFormat::kBF16;
  EXPECT_DEATH(check_weight("w", w), "data of w is F8_E4M3");
  w.format = WeightFormat::kNvfp4;
  EXPECT_DEATH(check_weight("w", w), "10 columns are no whole nvfp4 groups");
}

}  // namespace
}  // namespace glint
