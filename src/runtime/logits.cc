#include "runtime/logits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace glint {
namespace {

constexpr std::size_t kLanes = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Choosing by masks, because compilers make no vector code of branches.
std::uint32_t all_bits_if(bool condition) { return condition ? ~std::uint32_t{0} : 0; }

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

// ln of the sum of e^logit, over e^max.
double log_sum(std::span<const float> logits, float max) {
  float weights[kWeightBlock];
  double total = 0;
  for (std::size_t first = 0; first < logits.size(); first += kWeightBlock) {
    const std::size_t count = std::min(kWeightBlock, logits.size() - first);
    for (std::size_t i = 0; i < count; ++i) weights[i] = exp_weight(logits[first + i] - max);
    total += sum_of(weights, count);
  }
  return std::log(total);
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

TokenId argmax(std::span<const float> logits) {
  const auto found = std::find(logits.begin(), logits.end(), extent_of(logits).max);
  return found == logits.end() ? 0 : static_cast<TokenId>(found - logits.begin());
}

// 2^n * e^r with r in [-ln 2 / 2, ln 2 / 2] by the polynomial of Cephes' expf. Adding 1.5 * 2^23
// rounds to an integer, which is then in the low bits.
float exp_weight(float x) {
  constexpr float kMagic = 12582912.0f;
  const float t = x * 1.44269504f + kMagic;
  const float n = t - kMagic;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const std::uint32_t bits =
      std::bit_cast<std::uint32_t>(p) + (std::bit_cast<std::uint32_t>(t) << 23);
  return std::bit_cast<float>(bits & all_bits_if(x >= -87.0f));
}

void weigh(std::span<const float> logits, float max, float scale, float floor, Weights& weights) {
  weights.values.resize(logits.size());
  weights.sums.clear();
  weights.total = 0;
  float* const out = weights.values.data();
  for (std::size_t first = 0; first < logits.size(); first += kWeightBlock) {
    const std::size_t end = std::min(first + kWeightBlock, logits.size());
    for (std::size_t i = first; i < end; ++i) {
      const float weight = exp_weight((logits[i] - max) * scale);
      out[i] =
          std::bit_cast<float>(std::bit_cast<std::uint32_t>(weight) & all_bits_if(weight >= floor));
    }
    weights.sums.push_back(sum_of(out + first, end - first));
    weights.total += weights.sums.back();
  }
}

float nucleus_floor(const Weights& weights, double target) {
  // By exponent and the first four bits of the mantissa: order by them is order by value.
  constexpr int kShift = 19;
  std::vector<double> sums(std::bit_cast<std::uint32_t>(1.0f) / (1u << kShift) + 1);
  for (const float weight : weights.values) {
    sums[std::bit_cast<std::uint32_t>(weight) >> kShift] += static_cast<double>(weight);
  }
  double reached = 0;
  std::uint32_t bin = static_cast<std::uint32_t>(sums.size());
  while (bin > 0 && reached < target) reached += sums[--bin];
  return std::bit_cast<float>(bin << kShift);
}

void most_likely(std::span<const float> logits, int k, std::vector<Candidate>& list) {
  list.clear();
  if (k <= 0) return;
  const std::size_t wanted = static_cast<std::size_t>(k);
  // The k-th largest of the maxima of small blocks is a floor under the k-th largest logit, and not
  // many logits are above it.
  constexpr std::size_t kBlock = 4 * kLanes;
  float floor = -kInfinity;
  if (logits.size() / kBlock > wanted) {
    std::vector<float> maxima;
    for (std::size_t i = 0; i < logits.size(); i += kBlock) {
      maxima.push_back(extent_of(logits.subspan(i, std::min(kBlock, logits.size() - i))).max);
    }
    const auto kth = maxima.begin() + k - 1;
    std::nth_element(maxima.begin(), kth, maxima.end(), std::greater<>());
    floor = *kth;
  }
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= floor && logits[i] > -kInfinity) {
      list.push_back({static_cast<TokenId>(i), logits[i]});
    }
  }
  if (list.size() <= wanted) return;
  std::vector<Candidate> order = list;
  std::nth_element(order.begin(), order.begin() + k - 1, order.end(), likelier);
  const Candidate last = order[wanted - 1];
  std::erase_if(list, [&](const Candidate& c) { return likelier(last, c); });
}

void keep_nucleus(std::vector<Candidate>& list, double target, std::vector<Candidate>& scratch) {
  if (list.size() < 2) return;
  scratch = list;
  // Invariant: the weights of [0, low) add up to `reached` < target, and the last one to keep is in
  // [low, high).
  std::size_t low = 0, high = scratch.size();
  double reached = 0;
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    const auto at = [&](std::size_t i) { return scratch.begin() + static_cast<std::ptrdiff_t>(i); };
    std::nth_element(at(low), at(middle), at(high), likelier);
    double half = 0;
    for (std::size_t i = low; i < middle; ++i) half += static_cast<double>(scratch[i].weight);
    if (reached + half >= target) {
      high = middle;
    } else {
      reached += half;
      low = middle;
    }
  }
  const Candidate last = scratch[low];
  std::erase_if(list, [&](const Candidate& c) { return likelier(last, c); });
}

float logprob(std::span<const float> logits, TokenId id) {
  const float max = extent_of(logits).max;
  return static_cast<float>(static_cast<double>(logits[id] - max) - log_sum(logits, max));
}

TokenLogprob token_logprob(std::span<const float> logits, TokenId id, int num_top,
                           std::size_t num_token_ids) {
  const float max = extent_of(logits).max;
  const double sum = log_sum(logits, max);
  const auto of = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit - max) - sum);
  };
  const float own = logits[id];
  std::int64_t above = 0;
  for (const float logit : logits) above += logit > own ? 1 : 0;
  TokenLogprob result = {.logprob = of(own), .rank = static_cast<int>(above) + 1};
  std::vector<Candidate> list;
  most_likely(logits.first(num_token_ids), num_top, list);
  std::sort(list.begin(), list.end(), likelier);
  for (const Candidate& c : list) result.top.push_back({.id = c.id, .logprob = of(c.logit)});
  return result;
}

}  // namespace glint
