#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "base/str.h"

namespace glint {
namespace {

// Streams of draws at one position.
enum Draw : std::uint64_t { kSample = 0, kAccept = 1, kRecover = 2 };

double uniform(const SamplingParams& params, std::int64_t position, Draw draw) {
  return Random(params.seed, static_cast<std::uint64_t>(position) * 4 + draw).uniform();
}

// The candidate that a uniform number falls on.
TokenId pick(const std::vector<Candidate>& from, double u) {
  double total = 0;
  for (const Candidate& c : from) total += c.probability;
  double left = u * total;
  for (const Candidate& c : from) {
    left -= c.probability;
    if (left < 0) return c.id;
  }
  return from.back().id;
}

void normalize(std::vector<Candidate>& list) {
  double total = 0;
  for (const Candidate& c : list) total += c.probability;
  for (Candidate& c : list) c.probability /= total;
}

}  // namespace

std::span<const float> penalized(std::span<const float> logits, const SamplingParams& params,
                                 std::span<const TokenId> sequence, std::vector<float>& scratch) {
  if (params.repetition_penalty == 1) return logits;
  const float penalty = static_cast<float>(params.repetition_penalty);
  scratch.assign(logits.begin(), logits.end());
  for (const TokenId id : sequence) {
    if (static_cast<std::size_t>(id) >= logits.size()) continue;
    scratch[id] = logits[id] < 0 ? logits[id] * penalty : logits[id] / penalty;
  }
  return scratch;
}

TokenId argmax(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

float logprob(std::span<const float> logits, TokenId id) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return static_cast<float>(logits[id] - largest - std::log(sum));
}

std::vector<Candidate> candidates(std::span<const float> logits, const SamplingParams& params) {
  if (params.greedy()) return {{argmax(logits), 1}};
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<Candidate> list;
  // exp(-746) is 0 in double: what is further below the largest logit cannot be drawn.
  const double floor = std::max(params.min_p > 0 ? std::log(params.min_p) : -746.0, -746.0);
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const double exponent = (logits[id] - largest) / params.temperature;
    if (!(exponent > -746.0)) continue;
    const double weight = std::exp(exponent);
    if (exponent >= floor) list.push_back({static_cast<TokenId>(id), weight});
  }
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.id < b.id;
  };
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < list.size()) {
    std::partial_sort(list.begin(), list.begin() + params.top_k, list.end(), likelier);
    list.resize(static_cast<std::size_t>(params.top_k));
  } else {
    std::sort(list.begin(), list.end(), likelier);
  }
  normalize(list);
  if (params.top_p < 1) {
    double reached = 0;
    std::size_t keep = 0;
    while (keep < list.size() && reached < params.top_p) reached += list[keep++].probability;
    list.resize(std::max<std::size_t>(keep, 1));
    normalize(list);
  }
  return list;
}

TokenId sample(std::span<const float> logits, const SamplingParams& params, std::int64_t position) {
  if (params.greedy()) return argmax(logits);
  return pick(candidates(logits, params), uniform(params, position, kSample));
}

Verdict verify_draft(std::span<const float> logits, const SamplingParams& params,
                     std::int64_t position, TokenId draft) {
  if (params.greedy()) {
    const TokenId best = argmax(logits);
    return {best == draft, best};
  }
  std::vector<Candidate> list = candidates(logits, params);
  const auto at =
      std::find_if(list.begin(), list.end(), [&](const Candidate& c) { return c.id == draft; });
  const double p = at == list.end() ? 0 : at->probability;
  if (uniform(params, position, kAccept) < p) return {true, draft};
  if (at != list.end()) list.erase(at);
  // p == 1 is always accepted: u < 1. So something is left.
  return {false, pick(list, uniform(params, position, kRecover))};
}

}  // namespace glint
