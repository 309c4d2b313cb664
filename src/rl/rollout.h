// Rollouts: answers of the model in training, by the engine that serves: continuous batches, shared
// prefixes, log-probabilities as a client gets them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/token_constraint.h"
#include "rl/rollout_engine.h"

namespace glint {

struct Rollout {
  std::vector<TokenId> answer = {};   // the stop ids that ended its turns included
  std::vector<float> log_probs = {};  // of each, before temperature and filters; 0 if not chosen
  std::vector<std::int32_t> versions = {};  // of the weights that chose each
  std::vector<std::uint8_t> chosen = {};    // 1: by the model; 0: what came between its turns
  // If wanted: [all tokens of prompt and answer but the last, MoE layers, k], as TrainSequence has
  // them.
  std::vector<std::int32_t> routes = {};
  bool finished = false;          // by itself; else it can be gone on with
  bool truncated = false;         // by max_tokens
  int turns = 0;                  // that are finished
  int cached_tokens = 0;          // of the prompt, that another answer had run
  int drafted = 0, accepted = 0;  // draft tokens

  int size() const { return static_cast<int>(answer.size()); }
  // Where the turn that is the last begins in the answer.
  std::size_t last_turn() const;
};

// Whether an answer has got into a loop: its last 2,048 tokens have fewer different runs of eight
// than a fifth of them. Shorter ones have none.
bool ends_in_repetition(std::span<const TokenId> answer);

struct RolloutOptions {
  double temperature = 1, top_p = 1;
  int top_k = 0;
  int max_tokens = 0;     // of an answer
  int max_running = 128;  // answers at once
  int num_drafts = 0;     // that the MTP layer guesses a step, if the model has it
  std::vector<TokenId> stop_ids = {};
  TokenId num_token_ids = 0;  // ids from here on are padding and never come
  bool routes = false;        // tell the experts of each token
  std::int32_t version = 0;   // of the weights: each token is marked with it
  // Prompts come in groups of so many. Once `groups_wanted` groups are finished the other answers
  // stop where they are (rl/rollout_end.h); 0: all come to their end.
  int group_size = 1, groups_wanted = 0;
  // The shape that the answer to prompt number `prompt` must have, at its beginning; empty: any.
  std::function<std::shared_ptr<TokenConstraint>(std::size_t prompt)> constrain = {};
  // Tokens that follow a turn that ended by itself, after which the model goes on; none, or
  // `max_turns` turns: the answer is finished. Not together with `groups_wanted`.
  std::function<Result<std::vector<TokenId>>(std::size_t prompt, const Rollout&)> next_turn = {};
  int max_turns = 1;
};

struct RolloutPrompt {
  const std::vector<TokenId>* ids = nullptr;
  std::uint64_t seed = 0;          // what is drawn is a function of it and of the position alone
  const Rollout* begun = nullptr;  // an answer to go on with, or one that is finished
};

// Sees how many tokens came since the last call; false ends the rollouts.
using OnRolloutTokens = std::function<bool(int tokens)>;

// An answer to each prompt, in order. Fails if a prompt and an answer do not fit the model, if its
// logits are not numbers, and with kUnavailable when it was ended.
Result<std::vector<Rollout>> run_rollouts(RolloutEngine& engine,
                                          const std::vector<RolloutPrompt>& prompts,
                                          const RolloutOptions& options,
                                          const OnRolloutTokens& on_tokens);

}  // namespace glint
