#include "runtime/expert_load.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace glint {

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
  std::vector<int> order(static_cast<std::size_t>(num_experts));
  ExpertLoad sum;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<int> chosen(order.size());
    std::iota(order.begin(), order.end(), 0);
    for (int t = 0; t < tokens; ++t) {
      for (int i = 0; i < k; ++i) {  // the first k of a shuffle
        const auto left = static_cast<std::uint32_t>(num_experts - i);
        std::swap(order[static_cast<std::size_t>(i)],
                  order[static_cast<std::size_t>(i) + random.below(left)]);
        ++chosen[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
      }
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
