#include "engine/step_costs.h"

#include <gtest/gtest.h>

#include "engine/draft_control.h"
#include "engine/rate.h"

namespace glint {
namespace {

constexpr int kMaxTokens = 2048;

TEST(StepCosts, nobody_to_slow_down_or_no_limit_means_no_budget) {
  StepCosts costs;
  EXPECT_EQ(costs.prompt_budget(0, 2, 0, kMaxTokens), kMaxTokens);
  EXPECT_EQ(costs.prompt_budget(5, 0, 0, kMaxTokens), kMaxTokens);
  EXPECT_EQ(costs.prompt_budget(5, 2, 0, kMaxTokens), StepCosts::kUnknownBudget);
}

// A machine where a plain step takes 10 ms + 0.1 ms per sequence, and a prompt token 50 us.
double machine(const StepShape& shape) {
  return 0.010 + 0.0001 * shape.num_decoding + 50e-6 * shape.prompt_tokens;
}

TEST(StepCosts, a_step_with_prompts_takes_at_most_the_allowed_multiple) {
  StepCosts costs;
  const auto run = [&](int num_decoding, int prompt_tokens) {
    const StepShape shape = {.num_decoding = num_decoding, .prompt_tokens = prompt_tokens};
    costs.record(shape, machine(shape));
    return machine(shape);
  };
  run(0, 2048);
  for (int i = 0; i < 20; ++i) run(8, 0);
  EXPECT_NEAR(costs.plain_seconds(8), 0.0108, 1e-6);
  int total = 0, plain = 0;
  for (int i = 0; i < 500; ++i) {
    const int budget = costs.prompt_budget(8, 2, 0, kMaxTokens);
    const double seconds = run(8, budget);
    if (i >= 5) {
      EXPECT_LE(seconds, 2 * 0.0108) << "step " << i;
    }
    total += budget;
    plain += budget == 0;
  }
  EXPECT_GE(total, 500 * 150);  // 216 would be exactly twice
  EXPECT_NEAR(plain, 500 / 67 * StepCosts::kPlainSteps, 3);
}

// Rows of a prompt cost 2 ms for the first, as all experts are read then, and 10 us each.
TEST(StepCosts, short_steps_take_pieces_that_are_worth_it) {
  StepCosts costs;
  for (int i = 0; i < 9; ++i) costs.record({.num_decoding = 4}, 0.002);
  int steps = 0;
  for (int left = 3 * 2000; left > 0; ++steps) {
    const int budget =
        std::min(costs.prompt_budget(4, 2, StepCosts::kUnseenSeconds, kMaxTokens), left);
    const double seconds = 0.004 + 10e-6 * budget;
    EXPECT_LE(seconds, StepCosts::kUnseenSeconds);
    costs.record({.num_decoding = 4, .prompt_tokens = budget}, seconds);
    left -= budget;
  }
  EXPECT_LE(steps, 15);
}

TEST(StepCosts, prompts_progress_even_where_one_token_is_too_slow) {
  StepCosts costs;
  costs.record({.num_decoding = 1}, 0.001);
  costs.record({.prompt_tokens = 10}, 1.0);
  EXPECT_EQ(costs.prompt_budget(1, 2, 0, kMaxTokens), StepCosts::kMinPromptTokens);
  EXPECT_EQ(costs.prompt_budget(1, 2, 0, 1), 1);
}

TEST(StepCosts, an_unmeasured_number_of_sequences_counts_as_the_next_smaller) {
  StepCosts costs;
  costs.record({.num_decoding = 4}, 0.004);
  EXPECT_EQ(costs.plain_seconds(7), 0.004);
  EXPECT_EQ(costs.plain_seconds(300), 0.004);
  EXPECT_EQ(costs.plain_seconds(1), 0.004);
  costs.record({.num_decoding = 64}, 0.020);
  EXPECT_EQ(costs.plain_seconds(32), 0.004);
  EXPECT_EQ(costs.plain_seconds(100), 0.020);
}

TEST(StepCosts, single_slow_steps_change_nothing_and_a_slower_machine_is_noticed) {
  StepCosts costs;
  for (int i = 0; i < 9; ++i) costs.record({.num_decoding = 1}, 0.010);
  for (int i = 0; i < 9; ++i) costs.record({.num_decoding = 1, .prompt_tokens = 100}, 0.015);
  const int before = costs.prompt_budget(1, 2, 0, kMaxTokens);
  EXPECT_EQ(before, 180);
  costs.record({.num_decoding = 1, .prompt_tokens = 100}, 0.500);
  EXPECT_EQ(costs.prompt_budget(1, 2, 0, kMaxTokens), before);
  for (int i = 0; i < 6; ++i) costs.record({.num_decoding = 1, .prompt_tokens = 100}, 0.030);
  EXPECT_EQ(costs.prompt_budget(1, 2, 0, kMaxTokens), 45);
}

TEST(StepCosts, plain_steps_are_measured_anew_when_sequences_have_grown) {
  StepCosts costs;
  for (int i = 0; i < 9; ++i) costs.record({.num_decoding = 1}, 0.010);
  for (int i = 0; i < StepCosts::kMeasureEvery; ++i) {
    EXPECT_GT(costs.prompt_budget(1, 2, 0, kMaxTokens), 0);
    costs.record({.num_decoding = 1, .prompt_tokens = 100}, 0.015);
  }
  for (int i = 0; i < StepCosts::kPlainSteps; ++i) {
    EXPECT_EQ(costs.prompt_budget(1, 2, 0, kMaxTokens), 0);
    costs.record({.num_decoding = 1}, 0.040);
  }
  EXPECT_EQ(costs.plain_seconds(1), 0.040);
  EXPECT_GT(costs.prompt_budget(1, 2, 0, kMaxTokens), 0);
}

TEST(DraftControl, drafts_are_as_many_as_are_likely_enough) {
  const auto after = [&](int accepted_of_4) {
    DraftControl control;
    for (int i = 0; i < 100; ++i) control.record(4, accepted_of_4);
    return control.choose(5);
  };
  EXPECT_EQ(after(4), 5);
  EXPECT_EQ(after(2), 2);  // 2 of 3 trials: 0.67, 0.44, then 0.296
  EXPECT_EQ(after(1), 1);
  EXPECT_EQ(after(0), 0);
}

TEST(DraftControl, hopeless_drafts_are_tried_again_now_and_then) {
  DraftControl control;
  for (int i = 0; i < 100; ++i) control.record(1, 0);
  int tried = 0;
  for (int step = 0; step < 170; ++step) {
    const int count = control.choose(5);
    tried += count;
    control.planned(count);
    control.record(count, 0);
  }
  EXPECT_EQ(tried, 10);
  for (int i = 0; i < 30; ++i) control.record(1, 1);
  EXPECT_EQ(control.choose(5), 5);
}

TEST(Rate, tells_what_happens_per_second_lately) {
  Rate rate(10);
  EXPECT_EQ(rate.per_second(), 0);
  for (int i = 0; i < 20; ++i) rate.add(0.1, 5);
  EXPECT_NEAR(rate.per_second(), 50, 1);
  for (int i = 0; i < 1000; ++i) rate.add(0.1, 1);
  EXPECT_NEAR(rate.per_second(), 10, 0.2);
  EXPECT_NEAR(rate.per_second(10), 10 * std::exp(-1), 0.2);  // nothing since
}

}  // namespace
}  // namespace glint
