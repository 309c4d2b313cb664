// Generator: one sequence from a prompt to its end, with or without speculation by the MTP layer.
#pragma once

#include <functional>

#include "engine/request.h"
#include "runtime/loaded_model.h"

namespace glint {

struct GenerateOptions {
  int max_tokens = 256;
  SamplingParams sampling = {};
  std::vector<TokenId> stop_ids = {};  // end the answer; never part of it
  int num_drafts = 0;                  // MTP tokens guessed per step; 0: no speculation
  int chunk = 512;                     // prompt tokens per step
  bool want_logprobs = false;
  // Asked after each step of the prompt; false ends it before there is an answer (kCancelled).
  std::function<bool()> goes_on = {};
  // Ids from here on are padding rows of the vocabulary, never sampled; 0: there are none.
  TokenId num_token_ids = 0;
};

struct GenerateStats {
  FinishReason reason = FinishReason::kLength;
  int prompt_tokens = 0;  // of a prompt that was ended: those that were read
  int cached_tokens = 0;  // of the prompt: those that the cache held
  int completion_tokens = 0;
  int drafted = 0, accepted = 0;  // draft tokens verified, and found right
  double prefill_s = 0;           // until the first token was sampled
  double decode_s = 0;            // from then on
};

// Sees each token of the answer; false ends it (kCancelled, or a stop string: the caller knows).
using OnToken = std::function<bool(TokenId token, float logprob)>;

// Continues `tokens` (the prompt, at least one) and appends the answer to it. Positions [0,
// num_cached) must already be in the model's cache (0 for a fresh one); on return *num_cached tells
// how many are, so that a chat can go on. The sequence owns all pages of the model's cache, in
// order. Prompt and answer are never longer than the model has positions. Fails if prompt and one
// token do not fit.
Result<GenerateStats> generate(LoadedModel& model, std::vector<TokenId>& tokens, int* num_cached,
                               const GenerateOptions& options, const OnToken& on_token);

}  // namespace glint
