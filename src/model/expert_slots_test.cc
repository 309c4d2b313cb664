#include "model/expert_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "model/model_partition.h"

namespace glint {
namespace {

// Few experts have most of the rows, as routers leave them.
std::vector<std::uint64_t> skewed_load(int num_experts, std::uint64_t seed) {
  Random random(seed, 0);
  std::vector<std::uint64_t> load;
  for (int e = 0; e < num_experts; ++e) {
    const double x = random.uniform();
    load.push_back(static_cast<std::uint64_t>(20 + 2000 * x * x * x * x * x * x));
  }
  return load;
}

TEST(ExpertSlots, hold_every_expert_and_as_many_as_before) {
  for (const auto& [experts, slots, ranks] :
       {std::tuple(16, 16, 2), {16, 20, 3}, {256, 288, 8}, {5, 12, 4}, {8, 9, 2}, {3, 3, 3}}) {
    ExpertSlots now = first_slots(experts, slots);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const auto load = skewed_load(experts, seed);
      now = balanced_slots(load, now, ranks);
      ASSERT_EQ(std::ssize(now), slots);
      EXPECT_EQ(std::set<std::int32_t>(now.begin(), now.end()).size(),
                static_cast<std::size_t>(experts));
      EXPECT_EQ(balanced_slots(load, now, ranks), now) << "what is balanced stays";
    }
  }
}

TEST(ExpertSlots, balance_a_skewed_load) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto load = skewed_load(256, seed);
    const ExpertSlots before = first_slots(256, 288), after = balanced_slots(load, before, 8);
    EXPECT_GT(imbalance(load, before, 8), 1.1);
    EXPECT_LT(imbalance(load, after, 8), 1.02);
    EXPECT_LT(imbalance(load, balanced_slots(load, first_slots(256, 256), 8), 8), 1.1);
  }
}

TEST(ExpertSlots, give_spare_slots_to_the_busiest) {
  // Expert 2 has half of all rows: three of its copies on three ranks, with 20 rows each.
  const std::vector<std::uint64_t> load = {20, 20, 60, 20};
  const ExpertSlots slots = balanced_slots(load, first_slots(4, 6), 3);
  EXPECT_EQ(std::count(slots.begin(), slots.end(), 2), 3);
  EXPECT_DOUBLE_EQ(imbalance(load, slots, 3), 1);
  const ExpertCopies copies = copies_of(slots, 4);
  EXPECT_EQ(copies.first, (std::vector<std::int32_t>{0, 1, 2, 5, 6}));
  for (std::int32_t e = 0; e < 4; ++e) {
    for (std::int32_t i = copies.first[e]; i < copies.first[e + 1]; ++i) {
      EXPECT_EQ(slots[copies.copies[i]], e);
    }
  }
}

TEST(ExpertSlots, without_load_nothing_is_uneven) {
  const std::vector<std::uint64_t> none(8);
  EXPECT_EQ(imbalance(none, first_slots(8, 10), 2), 1);
  EXPECT_EQ(first_slots(4, 6), (ExpertSlots{0, 1, 2, 3, 0, 1}));
}

TEST(ExpertSlots, come_from_their_own_rank_where_they_can) {
  // Ranks of two slots. Expert 0 lies on ranks 0 and 2.
  const ExpertSlots from = {0, 1, 2, 3, 0, 4}, to = {1, 0, 0, 3, 4, 2};
  EXPECT_EQ(sources_of(from, to, 3), (std::vector<std::int32_t>{1, 0, 0, -1, 5, 2}));
}

}  // namespace
}  // namespace glint
