#include "model/expert_slots.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/contains.h"
#include "model/model_partition.h"

namespace glint {
namespace {

// The rank of each slot.
std::vector<int> ranks_of(std::size_t num_slots, int ranks) {
  std::vector<int> of;
  for (int r = 0; r < ranks; ++r) {
    const ExpertRange mine = experts_of(static_cast<int>(num_slots), r, ranks);
    of.insert(of.end(), static_cast<std::size_t>(mine.count), r);
  }
  return of;
}

struct Copy {
  std::int32_t expert = 0;
  double rows = 0;
};

// All copies, those with most rows first.
std::vector<Copy> replicate(std::span<const std::uint64_t> load, std::size_t num_slots) {
  std::vector<int> counts(load.size(), 1);
  const auto rows = [&](std::size_t e) { return static_cast<double>(load[e]) / counts[e]; };
  for (std::size_t spare = load.size(); spare < num_slots; ++spare) {
    std::size_t most = 0;
    for (std::size_t e = 1; e < load.size(); ++e) {
      if (rows(e) > rows(most)) most = e;
    }
    ++counts[most];
  }
  std::vector<Copy> all;
  for (std::size_t e = 0; e < load.size(); ++e) {
    all.insert(all.end(), static_cast<std::size_t>(counts[e]),
               {static_cast<std::int32_t>(e), rows(e)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Copy& a, const Copy& b) { return a.rows > b.rows; });
  return all;
}

// A rank, while it is filled.
struct Shelf {
  double rows = 0;
  std::size_t room = 0;
  std::vector<std::int32_t> experts = {};

  bool has(std::int32_t expert) const { return contains(experts, expert); }
};

}  // namespace

ExpertSlots first_slots(int num_experts, int num_slots) {
  GLINT_CHECK(num_slots >= num_experts, "fewer slots than experts");
  ExpertSlots slots(static_cast<std::size_t>(num_slots));
  for (int p = 0; p < num_slots; ++p) slots[static_cast<std::size_t>(p)] = p % num_experts;
  return slots;
}

ExpertSlots balanced_slots(std::span<const std::uint64_t> load, const ExpertSlots& now, int ranks) {
  std::vector<Shelf> shelves(static_cast<std::size_t>(ranks));
  for (const int r : ranks_of(now.size(), ranks)) ++shelves[static_cast<std::size_t>(r)].room;
  for (const Copy& copy : replicate(load, now.size())) {
    // A second copy on a rank helps nobody, but there may be no other room.
    const auto worse = [&](const Shelf& a, const Shelf& b) {
      const bool full_a = a.room == 0, full_b = b.room == 0;
      if (full_a != full_b) return full_b;
      const bool has_a = a.has(copy.expert), has_b = b.has(copy.expert);
      return has_a != has_b ? has_b : a.rows < b.rows;
    };
    Shelf& best = *std::min_element(shelves.begin(), shelves.end(), worse);
    best.experts.push_back(copy.expert);
    best.rows += copy.rows;
    --best.room;
  }
  ExpertSlots slots(now.size(), -1);
  std::size_t begin = 0;
  for (Shelf& shelf : shelves) {
    const std::size_t end = begin + shelf.experts.size();
    for (std::size_t p = begin; p < end; ++p) {
      const auto stays = std::find(shelf.experts.begin(), shelf.experts.end(), now[p]);
      if (stays == shelf.experts.end()) continue;
      slots[p] = now[p];
      shelf.experts.erase(stays);
    }
    auto next = shelf.experts.begin();
    for (std::size_t p = begin; p < end; ++p) {
      if (slots[p] < 0) slots[p] = *next++;
    }
    begin = end;
  }
  return slots;
}

double imbalance(std::span<const std::uint64_t> load, const ExpertSlots& slots, int ranks) {
  const auto all = static_cast<double>(std::accumulate(load.begin(), load.end(), std::uint64_t{0}));
  if (all == 0) return 1;
  const std::vector<int> of = ranks_of(slots.size(), ranks);
  const ExpertCopies copies = copies_of(slots, static_cast<int>(load.size()));
  std::vector<double> rows(static_cast<std::size_t>(ranks));
  for (std::size_t e = 0; e < load.size(); ++e) {
    const std::int32_t begin = copies.first[e], end = copies.first[e + 1];
    for (std::int32_t i = begin; i < end; ++i) {
      const auto slot = static_cast<std::size_t>(copies.copies[static_cast<std::size_t>(i)]);
      rows[static_cast<std::size_t>(of[slot])] += static_cast<double>(load[e]) / (end - begin);
    }
  }
  return *std::max_element(rows.begin(), rows.end()) * ranks / all;
}

ExpertCopies copies_of(const ExpertSlots& slots, int num_experts) {
  ExpertCopies of = {.first = std::vector<std::int32_t>(static_cast<std::size_t>(num_experts) + 1),
                     .copies = std::vector<std::int32_t>(slots.size())};
  for (const std::int32_t expert : slots) ++of.first[static_cast<std::size_t>(expert) + 1];
  std::partial_sum(of.first.begin(), of.first.end(), of.first.begin());
  std::vector<std::int32_t> next = of.first;
  for (std::size_t p = 0; p < slots.size(); ++p) {
    const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(slots[p])]++);
    of.copies[at] = static_cast<std::int32_t>(p);
  }
  return of;
}

std::vector<std::int32_t> sources_of(const ExpertSlots& from, const ExpertSlots& to, int ranks) {
  GLINT_CHECK(from.size() == to.size(), "another number of slots");
  const std::vector<int> rank = ranks_of(from.size(), ranks);
  std::vector<std::int32_t> sources(to.size(), -1);
  for (std::size_t p = 0; p < to.size(); ++p) {
    if (to[p] == from[p]) continue;
    std::vector<std::int32_t> copies;
    for (std::size_t q = 0; q < from.size(); ++q) {
      if (from[q] == to[p]) copies.push_back(static_cast<std::int32_t>(q));
    }
    GLINT_CHECK(!copies.empty(), "an expert that is in no slot cannot be moved");
    const auto near = std::find_if(copies.begin(), copies.end(), [&](std::int32_t q) {
      return rank[static_cast<std::size_t>(q)] == rank[p];
    });
    sources[p] = near != copies.end() ? *near : copies[p % copies.size()];
  }
  return sources;
}

}  // namespace glint
