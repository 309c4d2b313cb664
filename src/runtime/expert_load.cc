#include "runtime/expert_load.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace glint {

ExpertDraws::ExpertDraws(int num_experts, int k)
    : order_(static_cast<std::size_t>(num_experts)), k_(k) {
  std::iota(order_.begin(), order_.end(), 0);
}

std::span<const std::int32_t> ExpertDraws::next(Random& random) {
  const auto k = static_cast<std::size_t>(k_);
  for (std::size_t i = 0; i < k; ++i) {
    const auto left = static_cast<std::uint32_t>(order_.size() - i);
    std::swap(order_[i], order_[i + random.below(left)]);
  }
  return std::span(order_).first(k);
}

ExpertLoad expert_load(int num_experts, int k, int tokens, int ranks) {
  const double E = num_experts, T = tokens;
  constexpr int kMost = 2048;  // of more tokens the shares hardly change
  if (ranks > 1 && tokens > kMost) {
    ExpertLoad load = expert_load(num_experts, k, kMost, ranks);
    load.rows *= T / kMost;
    return load;
  }
  if (ranks == 1) return {.experts = E * (1 - std::pow(1 - k / E, T)), .rows = T * k};
  // Enough draws for a per cent or two; large batches differ little from each other.
  constexpr int kDraws = 4096;
  const int trials = std::clamp(kDraws / std::max(tokens, 1), 4, 200);
  Random random(7);
  ExpertLoad sum;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<int> chosen(static_cast<std::size_t>(num_experts));
    ExpertDraws draws(num_experts, k);
    for (int t = 0; t < tokens; ++t) {
      for (const std::int32_t expert : draws.next(random))
        ++chosen[static_cast<std::size_t>(expert)];
    }
    double experts = 0, rows = 0;
    for (int r = 0; r < ranks; ++r) {
      const auto at = [&](int rank) {
        return chosen.begin() + static_cast<std::ptrdiff_t>(num_experts) * rank / ranks;
      };
      experts = std::max(experts, static_cast<double>(std::count_if(
                                      at(r), at(r + 1), [](int rows) { return rows > 0; })));
      rows = std::max(rows, static_cast<double>(std::accumulate(at(r), at(r + 1), 0)));
    }
    sum.experts += experts / trials, sum.rows += rows / trials;
  }
  return sum;
}

}  // namespace glint
