#include "runtime/expert_load.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(ExpertLoad, is_the_mean_over_one_rank) {
  const ExpertLoad one = expert_load(256, 8, 1, 1);
  EXPECT_NEAR(one.experts, 8, 1e-9);
  EXPECT_EQ(one.rows, 8);
  EXPECT_NEAR(expert_load(256, 8, 32, 1).experts, 163.3, 0.1);
}

// A Monte Carlo of its own, in other code, gave 10.68 experts and 1.53 times the mean rows for 8
// tokens on 8 ranks, 32.00 and 1.13 for 128.
TEST(ExpertLoad, of_the_rank_that_has_most) {
  const ExpertLoad few = expert_load(256, 8, 8, 8), many = expert_load(256, 8, 128, 8);
  EXPECT_NEAR(few.experts, 10.68, 0.5);
  EXPECT_NEAR(few.rows, 8 * 1.53, 0.7);
  EXPECT_NEAR(many.experts, 32, 0.1);
  EXPECT_NEAR(many.rows, 128 * 1.13, 6);
  EXPECT_EQ(expert_load(256, 8, 8, 8).rows, few.rows);  // the same at every call
  EXPECT_NEAR(expert_load(256, 8, 1 << 20, 8).rows / (1 << 20), 1, 0.1);
}

}  // namespace
}  // namespace glint
