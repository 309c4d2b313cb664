#include "runtime/batch.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/rope.h"

namespace glint {
namespace {

std::vector<std::int32_t> ints(const Tensor& tensor) {
  const std::int32_t* data = tensor.ptr<std::int32_t>();
  return {data, data + tensor.size()};
}

TEST(Batch, slices_become_positions_slots_and_rows_that_want_logits) {
  const std::unique_ptr<Device> device = make_host_device();
  Arena arena(*device);
  StepPlan plan;
  const std::vector<TokenId> a = {7, 8, 9}, b = {5};
  plan.add(62, a, std::vector<PageId>{4, 1}, 2);  // crosses from its page 4 to its page 1
  plan.add(0, b, std::vector<PageId>{3}, 1);
  const Batch batch = build_batch(plan, {.inv_freq = {1.0f, 0.5f}}, arena);
  EXPECT_EQ(ints(batch.token_ids), (std::vector<std::int32_t>{7, 8, 9, 5}));
  EXPECT_EQ(ints(batch.view.positions), (std::vector<std::int32_t>{62, 63, 64, 0}));
  EXPECT_EQ(ints(batch.view.slots),
            (std::vector<std::int32_t>{4 * 64 + 62, 4 * 64 + 63, 64, 3 * 64}));
  EXPECT_EQ(ints(batch.view.seqs), (std::vector<std::int32_t>{0, 0, 0, 1}));
  EXPECT_EQ(ints(batch.view.page_table), (std::vector<std::int32_t>{4, 1, 3, -1}));
  EXPECT_EQ(batch.view.end, 65);
  EXPECT_EQ(ints(batch.logit_rows), (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_FLOAT_EQ(batch.view.cos.row<float>(2)[1], std::cos(32.0f));
}

// Values of the model's specification: the product of position and frequency is rounded to f32
// before cos and sin.
TEST(Batch, rotation_angles_are_f32_products) {
  const std::unique_ptr<Device> device = make_host_device();
  Arena arena(*device);
  RopeConfig rope;
  rope.theta = 1e6;
  StepPlan plan;
  std::vector<PageId> pages(202752 / 64);
  const std::vector<TokenId> token = {0};
  plan.add(202751, token, pages, 0);
  const Batch batch = build_batch(plan, {.inv_freq = rope_inv_freq(rope, 64)}, arena);
  const float* cos = batch.view.cos.ptr<float>();
  const float* sin = batch.view.sin.ptr<float>();
  EXPECT_NEAR(cos[0], 0.4476351, 1e-6);
  EXPECT_NEAR(sin[0], -0.8942163, 1e-6);
  EXPECT_NEAR(cos[1], 0.2025237, 1e-6);
  EXPECT_NEAR(sin[1], -0.9792774, 1e-6);
  EXPECT_NEAR(cos[31], 0.9516535, 1e-6);
}

TEST(Batch, cos_and_sin_are_scaled_by_the_attention_factor) {
  const std::unique_ptr<Device> device = make_host_device();
  Arena arena(*device);
  StepPlan plan;
  const std::vector<TokenId> token = {0};
  plan.add(3, token, std::vector<PageId>{0}, 0);
  const Batch batch = build_batch(plan, {.inv_freq = {0.5f}, .attention_factor = 0.75f}, arena);
  EXPECT_FLOAT_EQ(batch.view.cos.ptr<float>()[0], 0.75f * std::cos(1.5f));
  EXPECT_FLOAT_EQ(batch.view.sin.ptr<float>()[0], 0.75f * std::sin(1.5f));
}

TEST(BatchDeath, pages_must_cover_the_slice) {
  const std::unique_ptr<Device> device = make_host_device();
  Arena arena(*device);
  StepPlan plan;
  const std::vector<TokenId> tokens = {1, 2};
  plan.add(63, tokens, std::vector<PageId>{0}, 0);
  const Rotation rotation = {.inv_freq = {1.0f}};
  EXPECT_DEATH(build_batch(plan, rotation, arena), "has 1 pages");
}

}  // namespace
}  // namespace glint
