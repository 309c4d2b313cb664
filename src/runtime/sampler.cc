#include "runtime/sampler.h"

#include <algorithm>
#include <limits>

#include "base/random.h"

namespace glint {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

bool holds(std::span<const float> logits, TokenId id) {
  return id >= 0 && static_cast<std::size_t>(id) < logits.size();
}

bool changes_nothing(const SamplingParams& params, const SamplingContext& context) {
  return params.logit_bias.empty() && params.allowed_ids.empty() && params.bad_words.empty() &&
         !context.counts && context.forbidden.empty() && context.mask.empty();
}

void apply_mask(std::span<const std::uint32_t> mask, std::span<float> logits) {
  for (std::size_t word = 0; word < mask.size(); ++word) {
    if (mask[word] == ~std::uint32_t{0}) continue;
    const std::size_t end = std::min(logits.size(), (word + 1) * 32);
    for (std::size_t i = word * 32; i < end; ++i) {
      if (!(mask[word] >> (i % 32) & 1)) logits[i] = kImpossible;
    }
  }
}

// The last token of each word whose other tokens end the answer so far.
void forbid_bad_words(const std::vector<std::vector<TokenId>>& words,
                      std::span<const TokenId> answer, std::span<float> logits) {
  for (const std::vector<TokenId>& word : words) {
    if (word.empty() || word.size() - 1 > answer.size()) continue;
    const auto begun = answer.last(word.size() - 1);
    if (std::equal(begun.begin(), begun.end(), word.begin()) && holds(logits, word.back())) {
      logits[word.back()] = kImpossible;
    }
  }
}

void penalize(const SamplingParams& params, const TokenCounts& counts, std::span<float> logits) {
  const float repetition = static_cast<float>(params.repetition_penalty);
  const float frequency = static_cast<float>(params.frequency_penalty);
  const float presence = static_cast<float>(params.presence_penalty);
  for (const auto& [id, count] : counts) {
    if (!holds(logits, id)) continue;
    float& logit = logits[id];
    logit = logit < 0 ? logit * repetition : logit / repetition;
    logit -= frequency * static_cast<float>(count);
    if (count > 0) logit -= presence;
  }
}

// 1 / temperature, capped so that 0 * inf cannot occur.
float scale_of(const SamplingParams& params) {
  return static_cast<float>(std::min(1 / params.temperature, 1e30));
}

double total_of(const std::vector<Candidate>& list) {
  double total = 0;
  for (const Candidate& c : list) total += static_cast<double>(c.weight);
  return total;
}

// The token that a share of the total weight falls on, in order of ids.
TokenId pick(const Weights& weights, double share) {
  double left = share * weights.total;
  std::size_t block = 0;
  while (block + 1 < weights.sums.size() && left >= weights.sums[block]) {
    left -= weights.sums[block++];
  }
  std::size_t i = block * kWeightBlock;
  const std::size_t end = std::min(i + kWeightBlock, weights.values.size());
  for (; i < end; ++i) {
    left -= static_cast<double>(weights.values[i]);
    if (left < 0) return static_cast<TokenId>(i);
  }
  // Rounding left a little: the last token that has weight.
  while (weights.values[i - 1] == 0) --i;
  return static_cast<TokenId>(i - 1);
}

TokenId pick(const std::vector<Candidate>& list, double share) {
  double left = share * total_of(list);
  for (const Candidate& c : list) {
    left -= static_cast<double>(c.weight);
    if (left < 0) return c.id;
  }
  return list.back().id;
}

}  // namespace

std::span<const float> Sampler::adjust(std::span<const float> logits, const SamplingParams& params,
                                       const SamplingContext& context) {
  if (changes_nothing(params, context)) return logits;
  if (params.allowed_ids.empty()) {
    adjusted_.assign(logits.begin(), logits.end());
  } else {
    adjusted_.assign(logits.size(), kImpossible);
    for (const TokenId id : params.allowed_ids) {
      if (holds(logits, id)) adjusted_[id] = logits[id];
    }
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (holds(logits, id)) adjusted_[id] += bias;
  }
  apply_mask(context.mask, adjusted_);
  forbid_bad_words(params.bad_words, context.answer, adjusted_);
  for (const TokenId id : context.forbidden) {
    if (holds(logits, id)) adjusted_[id] = kImpossible;
  }
  if (context.counts) penalize(params, *context.counts, adjusted_);
  return adjusted_;
}

std::optional<TokenId> Sampler::sample(std::span<const float> logits, const SamplingParams& params,
                                       const SamplingContext& context) {
  const Extent raw = extent_of(logits);
  if (!raw.numbers) return {};
  const std::span<const float> row = adjust(logits, params, context);
  const float max = row.data() == logits.data() ? raw.max : extent_of(row).max;
  if (max == kImpossible) return {};
  if (params.greedy()) {
    return static_cast<TokenId>(std::find(row.begin(), row.end(), max) - row.begin());
  }
  return draw(row, max, params, context.position);
}

TokenId Sampler::draw(std::span<const float> logits, float max, const SamplingParams& params,
                      std::int64_t position) {
  const double share = Random(params.seed, static_cast<std::uint64_t>(position)).uniform();
  const bool top_k = params.top_k > 0 && static_cast<std::size_t>(params.top_k) < logits.size();
  const float min_p = static_cast<float>(params.min_p);
  if (top_k) {
    most_likely(logits, params.top_k, list_);
    for (Candidate& c : list_) c.weight = exp_weight((c.logit - max) * scale_of(params));
    std::erase_if(list_, [&](const Candidate& c) { return c.weight < min_p; });
    if (params.top_p < 1) keep_nucleus(list_, params.top_p * total_of(list_), scratch_);
    return pick(list_, share);
  }
  weigh(logits, max, scale_of(params), min_p, weights_);
  if (params.top_p == 1) return pick(weights_, share);
  keep_nucleus_of_row(logits, params.top_p * weights_.total);
  return pick(list_, share);
}

void Sampler::keep_nucleus_of_row(std::span<const float> logits, double target) {
  const float floor = nucleus_floor(weights_, target);
  list_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float weight = weights_.values[i];
    if (weight < floor || weight == 0) continue;
    list_.push_back({static_cast<TokenId>(i), logits[i], weight});
  }
  keep_nucleus(list_, target, scratch_);
}

}  // namespace glint
