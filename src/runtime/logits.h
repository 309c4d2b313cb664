// Logits: what sampling needs to know of one row of the vocabulary's logits, without sorting it.
//
// Passes over a whole row are written in lanes, which compilers turn into vector code; what depends
// on order (sums) has one that the row's length fixes.
#pragma once

#include <span>
#include <vector>

#include "base/types.h"
#include "engine/request.h"

namespace glint {

struct Extent {
  float max = 0;        // -infinity if every logit is
  bool numbers = true;  // none is NaN or +infinity
};
Extent extent_of(std::span<const float> logits);

// The most likely token (ties: the lowest id). 0 if no logit is a number.
TokenId argmax(std::span<const float> logits);

// weights[i] = e^((logits[i] - max) * scale), as exp_weight; below `floor` it is 0. Sums of every
// kWeightBlock of them go to `sums`, the sum of all to `total`.
inline constexpr std::size_t kWeightBlock = 512;
struct Weights {
  std::vector<float> values;  // of the row
  std::vector<double> sums;
  double total = 0;
};
void weigh(std::span<const float> logits, float max, float scale, float floor, Weights& weights);

// e^x for x <= 0 in f32, within 2e-7 of it; 0 where x < -87.
float exp_weight(float x);

// A weight such that those at or above it add up to `target` or more, hardly more than needed.
float nucleus_floor(const Weights& weights, double target);

struct Candidate {
  TokenId id = 0;
  float logit = 0;
  float weight = 0;
};
inline bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// The k >= 1 most likely tokens (ties: lower ids), by id; fewer if fewer are above -infinity.
// Weights are not set.
void most_likely(std::span<const float> logits, int k, std::vector<Candidate>& list);

// Keeps the fewest most likely of `list` whose weights add up to `target` or more, but at least
// one; the order stays. `scratch` is memory.
void keep_nucleus(std::vector<Candidate>& list, double target, std::vector<Candidate>& scratch);

// ln softmax(logits)[id], before temperature and filters.
float logprob(std::span<const float> logits, TokenId id);

// The same with its rank, and the `num_top` most likely tokens among the first `num_token_ids`.
TokenLogprob token_logprob(std::span<const float> logits, TokenId id, int num_top,
                           std::size_t num_token_ids);

}  // namespace glint
