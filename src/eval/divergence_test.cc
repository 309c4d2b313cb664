#include "eval/divergence.h"

#include <gtest/gtest.h>

#include <cmath>

namespace glint {
namespace {

TEST(Divergence, two_distributions_computed_by_hand) {
  // p_ref = (1/2, 1/4, 1/4), p = (1/4, 1/4, 1/2); shifted by constants, which change nothing.
  const std::vector<float> ref = {std::log(2.0f) + 5, 5, 5};
  const std::vector<float> logits = {-3, -3, std::log(2.0f) - 3};
  const RowDivergence row = compare_rows(ref, logits, 0);
  EXPECT_NEAR(row.kl, 0.5 * std::log(2.0) - 0.25 * std::log(2.0), 1e-6);
  EXPECT_NEAR(row.ref_nll, std::log(2.0), 1e-6);
  EXPECT_NEAR(row.nll, std::log(4.0), 1e-6);
  EXPECT_EQ(row.ref_top, 0);
  EXPECT_EQ(row.top, 2);
}

TEST(Divergence, equal_rows_diverge_by_exactly_zero) {
  std::vector<float> row;
  for (int i = 0; i < 1000; ++i) row.push_back(std::sin(static_cast<float>(i)) * 20);
  const RowDivergence same = compare_rows(row, row, 7);
  EXPECT_EQ(same.kl, 0);
  EXPECT_EQ(same.ref_nll, same.nll);
  EXPECT_EQ(same.ref_top, same.top);
}

TEST(Divergence, large_logits_neither_overflow_nor_lose_the_difference) {
  const std::vector<float> ref = {3000, 2999, -3000}, logits = {3000, 3000, -3000};
  const double p = 1 / (1 + std::exp(-1.0)), q = 1 - p;
  EXPECT_NEAR(compare_rows(ref, logits, 0).kl, p * std::log(p) + q * std::log(q) + std::log(2.0),
              1e-12);
}

TEST(Divergence, what_is_not_finite_shows) {
  const std::vector<float> good = {1, 2}, bad = {1, NAN}, never = {1, -INFINITY};
  EXPECT_FALSE(std::isfinite(compare_rows(good, bad, 0).kl));
  EXPECT_FALSE(std::isfinite(compare_rows(bad, good, 0).kl));
  EXPECT_FALSE(std::isfinite(compare_rows(good, never, 0).kl));
}

TEST(DivergenceDeathTest, rows_of_two_vocabularies_are_a_bug) {
  const std::vector<float> two = {1, 2}, three = {1, 2, 3};
  EXPECT_DEATH(compare_rows(two, three, 0), "one vocabulary");
}

}  // namespace
}  // namespace glint
