// Sampling: from a row of logits to a token, and the verification of drafted tokens.
//
// The order is vLLM's: repetition penalty, temperature, min_p, top_k, top_p. Every draw is a
// function of (seed, position) alone, so that what a request says does not depend on its batch, on
// threads or on chunks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling_params.h"

namespace glint {

// The tokens that survive the filters, most likely first (ties: lower id), with probabilities that
// sum to 1.
struct Candidate {
  TokenId id = 0;
  double probability = 0;
};
std::vector<Candidate> candidates(std::span<const float> logits, const SamplingParams& params);

// The token for sequence position `position`. Logits may hold -inf, not all.
TokenId sample(std::span<const float> logits, const SamplingParams& params, std::int64_t position);

// Judges `draft`, a guess for `position` that its drafter was certain of (an argmax). Accepted with
// the model's own probability of it; otherwise `token` comes from what is left without the draft.
// So tokens have exactly the model's distribution, whatever the drafter does. Greedy: accepted if
// it is the most likely token.
struct Verdict {
  bool accepted = false;
  TokenId token = 0;  // `draft` if accepted
};
Verdict verify_draft(std::span<const float> logits, const SamplingParams& params,
                     std::int64_t position, TokenId draft);

// `logits` with the repetition penalty for the tokens of `sequence` (each counts once), in
// `scratch` if there is one.
std::span<const float> penalized(std::span<const float> logits, const SamplingParams& params,
                                 std::span<const TokenId> sequence, std::vector<float>& scratch);

TokenId argmax(std::span<const float> logits);

// ln softmax(logits)[id], before temperature and filters.
float logprob(std::span<const float> logits, TokenId id);

}  // namespace glint
