// Rows of logits in host memory: passes over a whole row are written in lanes, which compilers turn
// into vector code; what depends on order (sums) has one that the row's length fixes.
#pragma once

#include <cstdint>
#include <span>

namespace glint {

struct Extent {
  float max = 0;        // -infinity if every logit is
  bool numbers = true;  // none is NaN or +infinity
};
Extent extent_of(std::span<const float> logits);

// The most likely token (ties: the lowest id). 0 if no logit is a number.
std::int32_t argmax(std::span<const float> logits);

// ln of the sum of e^logit, over e^max.
double log_sum(std::span<const float> logits, float max);

// ln softmax(logits)[id], before temperature and filters.
float logprob(std::span<const float> logits, std::int32_t id);

}  // namespace glint
