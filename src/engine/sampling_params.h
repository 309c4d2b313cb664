// SamplingParams: how one request wants its tokens chosen. Plain data, so that the host side can
// carry it; the arithmetic is ops/sampling.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/shared.h"
#include "base/types.h"

namespace glint {

// Every row of every step may carry so many: memory is planned for them.
inline constexpr std::size_t kMaxLogitBias = 1024;
inline constexpr std::size_t kMaxBadWords = 2000;

struct SamplingParams {
  double temperature = 1;  // 0: the most likely token (ties: the lowest id)
  double top_p = 1;        // keep the fewest most likely tokens whose probabilities reach this
  int top_k = 0;           // keep the k most likely; 0: all
  double min_p = 0;        // drop what is less likely than this share of the most likely
  // Divides (if negative: multiplies) the logits of tokens already in the sequence, prompt
  // included.
  double repetition_penalty = 1;
  double presence_penalty = 0;  // subtracted once from the logit of each token of the answer so far
  double frequency_penalty = 0;  // subtracted for each time that it is in the answer so far
  // Added to these logits; ids rise, at most kMaxLogitBias.
  Shared<std::vector<std::pair<TokenId, float>>> logit_bias = {};
  Shared<std::vector<TokenId>> allowed_ids = {};  // only these may come; empty: all
  // Sequences that may not appear, at most kMaxBadWords.
  Shared<std::vector<std::vector<TokenId>>> bad_words = {};
  // A request without a seed of its own gets one when it is submitted.
  std::uint64_t seed = 0;

  bool greedy() const { return temperature == 0; }
  bool penalizes() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
};

// Refuses values outside their range, naming the field.
Status validate(const SamplingParams& params);

// Refuses token ids outside the vocabulary; `name` is what holds them.
Status check_token_ids(std::string_view name, std::span<const TokenId> ids,
                       std::int64_t vocab_size);
// Refuses token ids outside the vocabulary in any field.
Status check_token_ids(const SamplingParams& params, std::int64_t vocab_size);

}  // namespace glint
