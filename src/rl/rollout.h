// Rollouts: answers of the model in training, by the engine that serves: continuous batches, shared
// prefixes, log-probabilities as a client gets them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/loaded_model.h"

namespace glint {

struct RolloutOptions {
  double temperature = 1, top_p = 1;
  int top_k = 0;
  int max_tokens = 0;     // of an answer
  int max_running = 128;  // answers at once
  int num_drafts = 0;     // that the MTP layer guesses a step, if the model has it
  std::vector<TokenId> stop_ids = {};
  TokenId num_token_ids = 0;  // ids from here on are padding and never come
  bool routes = false;        // tell the experts of each token
};

struct RolloutPrompt {
  const std::vector<TokenId>* ids = nullptr;
  std::uint64_t seed = 0;  // what is drawn is a function of it and of the position alone
};

struct Rollout {
  std::vector<TokenId> answer = {};   // the stop id that ended it included
  std::vector<float> log_probs = {};  // of each, before temperature and filters
  // If wanted: [all tokens of prompt and answer but the last, MoE layers, k], as TrainSequence has
  // them.
  std::vector<std::int32_t> routes = {};
  bool truncated = false;         // by max_tokens
  int cached_tokens = 0;          // of the prompt, that another answer had run
  int drafted = 0, accepted = 0;  // draft tokens
};

// Sees how many tokens came since the last call; false ends the rollouts.
using OnRolloutTokens = std::function<bool(int tokens)>;

// An answer to each prompt, in order. Starts with an empty cache, whose pages it reserves: nothing
// of other weights is ever read. Fails if a prompt and an answer do not fit the model, if its
// logits are not numbers, and with kUnavailable when it was ended.
Result<std::vector<Rollout>> run_rollouts(LoadedModel& model,
                                          const std::vector<RolloutPrompt>& prompts,
                                          const RolloutOptions& options,
                                          const OnRolloutTokens& on_tokens);

}  // namespace glint
