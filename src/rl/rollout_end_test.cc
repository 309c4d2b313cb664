#include "rl/rollout_end.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "rl/rollout.h"

namespace glint {
namespace {

TEST(RolloutEnd, all_go_to_their_end_where_all_are_wanted) {
  RolloutEnd end(4, 2, 0);
  for (std::size_t i = 0; i < 4; ++i) end.finish(i, 5);
  EXPECT_EQ(end.limit(), INT_MAX);
}

TEST(RolloutEnd, the_last_answer_of_the_groups_that_are_wanted_is_the_end) {
  RolloutEnd end(6, 2, 2);
  end.finish(0, 9);
  end.finish(1, 4);  // group 0: 9
  end.finish(2, 7);
  EXPECT_EQ(end.limit(), INT_MAX);
  end.finish(5, 30);
  end.finish(4, 1);  // group 2: 30
  EXPECT_EQ(end.limit(), 30);
  end.finish(3, 8);  // group 1: 8
  EXPECT_EQ(end.limit(), 9);
}

// Whatever the order in which answers run and come to their end, the limit is the same, and none
// that is not beyond it is lost.
TEST(RolloutEnd, the_limit_does_not_depend_on_the_order) {
  constexpr std::size_t kAnswers = 24;
  std::vector<int> lengths;
  for (std::size_t i = 0; i < kAnswers; ++i) {
    lengths.push_back(static_cast<int>(1 + philox(3, 0, i)[0] % 20));
  }
  std::vector<int> limits;
  for (std::uint64_t order = 0; order < 20; ++order) {
    std::vector<std::size_t> first(kAnswers);
    std::iota(first.begin(), first.end(), std::size_t{0});
    std::ranges::sort(first, {}, [&](std::size_t i) { return philox(order, 1, i)[0]; });
    RolloutEnd end(kAnswers, 4, 3);
    for (const std::size_t i : first) {
      if (lengths[i] <= end.limit()) end.finish(i, lengths[i]);
    }
    limits.push_back(end.limit());
  }
  EXPECT_EQ(std::ranges::min(limits), std::ranges::max(limits));
  EXPECT_LT(limits[0], 20);
}

TEST(Repetition, is_a_long_end_that_says_the_same) {
  std::vector<TokenId> answer;
  for (int i = 0; i < 1000; ++i) answer.push_back(i);
  for (int i = 0; i < 2000; ++i) answer.push_back(i % 300);
  EXPECT_FALSE(ends_in_repetition(std::span(answer).first(2100)));
  EXPECT_TRUE(ends_in_repetition(answer));
  EXPECT_FALSE(ends_in_repetition(std::span(answer).last(2000))) << "too short to say";
}

}  // namespace
}  // namespace glint
