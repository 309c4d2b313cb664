// How many experts a batch goes through, and how many rows, where every expert is as likely.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace glint {

// The experts of one token after another: `k` different ones of `num_experts`.
class ExpertDraws {
 public:
  ExpertDraws(int num_experts, int k);
  // Valid until the next call.
  std::span<const std::int32_t> next(Random& random);

 private:
  std::vector<std::int32_t> order_;  // the first k of a shuffle are the token's
  int k_;
};

struct ExpertLoad {
  double experts = 0;  // that some token chose
  double rows = 0;     // pairs of a token and an expert it chose
};

// The load of `tokens` tokens that each choose `k` of `num_experts`, on the rank of `ranks` that
// has most, each figure for itself: the mean over layers. Exact for one rank, else a mean over
// drawn batches, the same at every call.
ExpertLoad expert_load(int num_experts, int k, int tokens, int ranks);

}  // namespace glint
