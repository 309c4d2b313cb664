// Sampling: from a row of logits to a token.
//
// The order is vLLM's: bias, what may come at all (allowed ids, the grammar, bad words, stop ids
// before min_tokens), repetition, frequency and presence penalties, temperature, min_p, top_k,
// top_p. Every draw is a function of (seed, position) alone, so that what a request says does not
// depend on its batch, on threads, on chunks or on speculation: a draft is right if it is the token
// that would have been drawn anyway. It is drawn with exactly the model's probability, so that is
// how often a draft is accepted, and answers have exactly the model's distribution.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/sampling_params.h"
#include "runtime/logits.h"

namespace glint {

// How often each token of a sequence is in its answer; tokens of the prompt alone have 0.
using TokenCounts = std::unordered_map<TokenId, int>;

// Inputs of sampling besides logits and parameters.
struct SamplingContext {
  std::int64_t position = 0;                 // of the token
  std::span<const TokenId> answer = {};      // the tokens of the answer before it
  const TokenCounts* counts = nullptr;       // null: no penalties
  std::span<const TokenId> forbidden = {};   // may not come
  std::span<const std::uint32_t> mask = {};  // of bits: what may come; empty: everything
};

// The memory that sampling works in. One thread at a time.
class Sampler {
 public:
  // The token, or nothing: a logit is NaN or +infinity, or no token may come.
  std::optional<TokenId> sample(std::span<const float> logits, const SamplingParams& params,
                                const SamplingContext& context);

  // The logits after everything that comes before temperature. Valid until the next call.
  std::span<const float> adjust(std::span<const float> logits, const SamplingParams& params,
                                const SamplingContext& context);

 private:
  TokenId draw(std::span<const float> logits, float max, const SamplingParams& params,
               std::int64_t position);
  void keep_nucleus_of_row(std::span<const float> logits, double target);

  std::vector<float> adjusted_;
  Weights weights_;
  std::vector<Candidate> list_, scratch_;
};

}  // namespace glint
