#include "ops/plan_ops.h"

#include <gtest/gtest.h>

#include "tensor/null_device.h"

namespace glint {
namespace {

class PlanOpsTest : public testing::Test {
 protected:
  NullDevice device_;
  Arena arena_{device_};
  PlanOps ops_{device_};

  WeightStack stack(std::int64_t count, std::int64_t rows, std::int64_t cols) {
    return {.count = count,
            .rows = rows,
            .cols = cols,
            .data = arena_.take(DType::kBF16, {count, rows, cols}),
            .id = 5};
  }
};

TEST_F(PlanOpsTest, notes_what_calls_cost_and_touches_no_memory) {
  const Tensor x = arena_.take(DType::kBF16, {4, 32}), out = arena_.take(DType::kBF16, {4, 8});
  ops_.linear({.x = x, .weight = stack(1, 8, 32)[0], .out = out});
  ASSERT_EQ(ops_.calls().size(), 1u);
  const PlanOps::Call& call = ops_.calls()[0];
  EXPECT_EQ(call.op, Op::kLinear);
  EXPECT_EQ(call.weight, 5);
  EXPECT_EQ(call.format, WeightFormat::kBF16);
  EXPECT_EQ(call.cost.flops, 2 * 4 * 32 * 8);
  EXPECT_EQ(call.cost.weight_bytes, 2 * 32 * 8);
  EXPECT_EQ(call.cost.bytes, 2 * (32 * 8 + 4 * 32 + 4 * 8));
  ops_.reset({});
  EXPECT_EQ(ops_.total().flops, 0);
}

TEST_F(PlanOpsTest, takes_from_its_assumptions_what_device_memory_would_say) {
  ops_.reset({.visible = 100, .sequences = 2, .longest = 110, .experts = 3, .rows = 6});
  const Tensor x = arena_.take(DType::kBF16, {4, 32}), rows = arena_.take(DType::kI32, {8});
  ops_.grouped_linear({.x = x,
                       .rows = rows,
                       .offsets = arena_.take(DType::kI32, {17}),
                       .weights = stack(16, 8, 32),
                       .out = arena_.take(DType::kBF16, {8, 8})});
  EXPECT_EQ(ops_.total().weight_bytes, 3 * 2 * 8 * 32);
  EXPECT_EQ(ops_.total().flops, 2 * 6 * 8 * 32);

  // Four tokens of two sequences attend to 64 of 100 keys each: 256, of which 220 differ.
  ops_.reset({.visible = 100, .sequences = 2, .longest = 110});
  const LatentCache kv = {.data = x.data, .num_slots = 64, .latent_dim = 16, .rope_dim = 4};
  ops_.sparse_mla({.q_latent = arena_.take(DType::kBF16, {4, 3, 16}),
                   .q_rope = arena_.take(DType::kBF16, {4, 3, 4}),
                   .kv = kv,
                   .indices = arena_.take(DType::kI32, {4, 64}),
                   .softmax_scale = 1,
                   .out = arena_.take(DType::kBF16, {4, 3, 16})});
  EXPECT_EQ(ops_.total().cache_bytes, 220 * 40);
  EXPECT_EQ(ops_.total().flops, 2 * 256 * 3 * 36);
}

TEST_F(PlanOpsTest, counts_for_each_token_the_keys_that_it_sees) {
  // Ten tokens of a sequence see 7, 8, .. 16 keys: up to 12 of them all, which the first six have.
  ops_.reset({.visible = 11.5, .sequences = 1, .longest = 16});
  const Tensor x = arena_.take(DType::kBF16, {64, 32}), chosen = arena_.take(DType::kI32, {10, 12});
  ops_.sparse_mla({.q_latent = arena_.take(DType::kBF16, {10, 3, 16}),
                   .q_rope = arena_.take(DType::kBF16, {10, 3, 4}),
                   .kv = {.data = x.data, .num_slots = 64, .latent_dim = 16, .rope_dim = 4},
                   .indices = chosen,
                   .softmax_scale = 1,
                   .out = arena_.take(DType::kBF16, {10, 3, 16})});
  EXPECT_DOUBLE_EQ(ops_.total().flops, 2 * (7 + 8 + 9 + 10 + 11 + 12 + 4 * 12) * 3 * 36);
}

using PlanOpsDeathTest = PlanOpsTest;
TEST_F(PlanOpsDeathTest, checks_arguments_as_every_backend) {
  const Tensor x = arena_.take(DType::kBF16, {4, 31}), out = arena_.take(DType::kBF16, {4, 8});
  const Weight weight = stack(1, 8, 32)[0];
  EXPECT_DEATH(ops_.linear({.x = x, .weight = weight, .out = out}), "K is 31");
}

}  // namespace
}  // namespace glint
