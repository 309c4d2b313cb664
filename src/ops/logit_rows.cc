#include "ops/logit_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/sampling_math.h"

namespace glint {
namespace {

constexpr std::size_t kLanes = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Sums in as many lanes as fit a vector, then pairwise.
double sum_of(const float* values, std::size_t count) {
  double lanes[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::size_t l = 0; l < 8; ++l) lanes[l] += static_cast<double>(values[i + l]);
  }
  for (std::size_t l = 0; i < count; ++i, ++l) lanes[l] += static_cast<double>(values[i]);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

}  // namespace

Extent extent_of(std::span<const float> logits) {
  float most[kLanes];
  std::uint32_t bad[kLanes] = {};
  std::fill_n(most, kLanes, -kInfinity);
  const auto see = [&](std::size_t lane, float x) {
    most[lane] = x > most[lane] ? x : most[lane];
    bad[lane] |= x <= std::numeric_limits<float>::max() ? 0u : 1u;
  };
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) see(l, logits[i + l]);
  }
  for (std::size_t l = 0; i < logits.size(); ++i, ++l) see(l, logits[i]);
  return {.max = *std::max_element(most, most + kLanes),
          .numbers = std::find(bad, bad + kLanes, 1u) == bad + kLanes};
}

std::int32_t argmax(std::span<const float> logits) {
  const auto found = std::find(logits.begin(), logits.end(), extent_of(logits).max);
  return found == logits.end() ? 0 : static_cast<std::int32_t>(found - logits.begin());
}

double log_sum(std::span<const float> logits, float max) {
  constexpr std::size_t kBlock = 512;
  float weights[kBlock];
  double total = 0;
  for (std::size_t first = 0; first < logits.size(); first += kBlock) {
    const std::size_t count = std::min(kBlock, logits.size() - first);
    for (std::size_t i = 0; i < count; ++i) weights[i] = exp_weight(logits[first + i] - max);
    total += sum_of(weights, count);
  }
  return std::log(total);
}

float logprob(std::span<const float> logits, std::int32_t id) {
  const float max = extent_of(logits).max;
  return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(id)] - max) -
                            log_sum(logits, max));
}

}  // namespace glint
