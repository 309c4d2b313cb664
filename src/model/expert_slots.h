// The slots of a layer's routed experts, where experts move between the ranks that share them:
// which expert each slot holds, and which it should hold, given what the experts have had to do.
//
// Source: the greedy replication and packing of EPLB (github.com/deepseek-ai/EPLB), without its
// groups of nodes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace glint {

// The expert in each slot. Every expert is in one at least, and those in several have copies. Slots
// are dealt out to ranks in order, as even as it goes (experts_of).
using ExpertSlots = std::vector<std::int32_t>;

// As loaded: the experts in order, and again from the first one on. `num_slots` >= `num_experts`.
ExpertSlots first_slots(int num_experts, int num_slots);

// Slots in which the busiest of `ranks` has as little to do as greedy packing finds, where expert e
// has load[e] rows that its copies share: the spare slots go to the experts with most rows a copy,
// and the heaviest copy goes first, to the rank with least. What a rank has already stays in its
// slot. A function of the arguments alone; ties go to lower numbers.
ExpertSlots balanced_slots(std::span<const std::uint64_t> load, const ExpertSlots& now, int ranks);

// Rows of the busiest rank over the mean of all, 1 at best; 1 without any load.
double imbalance(std::span<const std::uint64_t> load, const ExpertSlots& slots, int ranks);

// The slots of each expert: those of e are copies[first[e]] .. copies[first[e + 1] - 1], ascending.
struct ExpertCopies {
  std::vector<std::int32_t> first, copies;
};
ExpertCopies copies_of(const ExpertSlots& slots, int num_experts);

// For each slot of `to` that holds another expert than in `from`: where in `from` its expert lies,
// on the same rank if it can be, else in one of the copies, in turns; -1 for the others.
std::vector<std::int32_t> sources_of(const ExpertSlots& from, const ExpertSlots& to, int ranks);

}  // namespace glint
