// One rank of a divided model, with made-up weights.
#include "runtime/emulated_rank.h"

#include "executor/harness.h"
#include "ops/testing/late_ops.h"
#include "runtime/memory_plan.h"

namespace glint {
namespace {

TEST(EmulatedRank, holds_its_share_and_repeats_its_pass) {
  const ModelConfig config = read_config(kModelDir + "/config.json").value();
  for (const Release release : {Release::kBF16, Release::kFp8, Release::kNvfp4}) {
    LateOps ops(host_backend().make(2));
    const TrialOptions options = {
        .shape = {.tp = 2}, .format = formats_of(config, release), .like = &ops};
    const auto trial = StepTrial::make(config, options).value();
    const MemoryPlan plan = plan_memory(
        *trial, config, options, {.max_step_tokens = 64, .max_running = 2, .max_seq_len = 320});
    auto made = EmulatedRank::make(config, options, 10, ops);
    ASSERT_TRUE(made.ok()) << made.error().message;
    EmulatedRank& rank = *made.value();
    const auto planned = static_cast<double>(plan.weight_bytes());
    EXPECT_NEAR(static_cast<double>(rank.weight_bytes()) / planned, 1, 0.02);
    rank.fill_cache(320);
    rank.prepare({.sequences = 2, .context = 300});
    EXPECT_TRUE(rank.is_graph());
    EXPECT_GT(rank.time(2), 0);
    EXPECT_TRUE(rank.logits_are_numbers());
  }
}

TEST(EmulatedRank, is_one_of_a_tensor_parallel_group) {
  const ModelConfig config = read_config(kModelDir + "/config.json").value();
  const auto ops = host_backend().make(1);
  const auto rank = EmulatedRank::make(
      config, {.shape = {.dp = 2}, .format = formats_of(config, Release::kBF16)}, 1, *ops);
  ASSERT_FALSE(rank.ok());
  EXPECT_EQ(rank.error().message,
            "a rank of dp 2 cannot be emulated alone; give the size of a tensor-parallel group, "
            "tp=N");
}

}  // namespace
}  // namespace glint
