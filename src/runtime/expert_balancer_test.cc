#include "runtime/expert_balancer.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

// Two ranks of four slots; six experts in layers 1 and 3.
ModelPartition two_ranks() {
  return {.shape = {.ep = 2, .dp = 2, .moves_experts = true, .redundant_experts = 2},
          .num_expert_slots = 8};
}

TEST(ExpertBalancer, moves_one_layer_a_step_where_it_pays) {
  ExpertBalancer balancer(two_ranks(), {.layers = {1, 3}, .num_experts = 6, .interval = 3});
  // In layer 1 all rows go to the experts of the first rank, in layer 3 they are even.
  std::vector<std::uint64_t> load = {90, 90, 90, 90, 0, 0, 5, 5, 10, 10, 10, 10};
  const auto steps = [&](int count) {
    std::vector<ExpertBalancer::Move> moves;
    for (int i = 0; i < count; ++i) {
      if (auto move = balancer.before_step([&] { return load; })) moves.push_back(*move);
    }
    return moves;
  };
  EXPECT_TRUE(steps(3).empty());
  const auto moves = steps(1);
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_EQ(moves[0].layer, 1);
  ExpertPlaces places = balancer.places();
  EXPECT_EQ(places.slots[0], moves[0].slots);
  EXPECT_EQ(places.slots[1], first_slots(6, 8));
  EXPECT_EQ(places.moved_layers, 1u);
  EXPECT_GT(places.imbalance_before, 1.2);
  EXPECT_NEAR(places.imbalance_after, 1, 0.02);
  // The same load again, since the last look: all is well.
  for (std::uint64_t& rows : load) rows *= 2;
  EXPECT_TRUE(steps(8).empty());
  EXPECT_EQ(balancer.places().looks, 3u);
  balancer.forget_moves();
  EXPECT_EQ(balancer.places().slots[0], first_slots(6, 8));
}

TEST(ExpertBalancer, layers_wait_for_each_other) {
  ExpertBalancer balancer(two_ranks(), {.layers = {1, 3}, .num_experts = 6, .interval = 1});
  const std::vector<std::uint64_t> load = {90, 90, 90, 90, 0, 0, 90, 90, 90, 90, 0, 0};
  std::vector<int> layers;
  for (int i = 0; i < 4; ++i) {
    const auto move = balancer.before_step([&] { return load; });
    layers.push_back(move ? move->layer : -1);
  }
  EXPECT_EQ(layers, (std::vector<int>{-1, 1, 3, -1}));
}

}  // namespace
}  // namespace glint
