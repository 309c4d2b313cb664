// TrainSequence: tokens to learn from, and what is said of each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "runtime/loaded_model.h"

namespace glint {

struct TrainSequence {
  std::vector<TokenId> ids = {};
  // The loss of token t counts weights[t] times; empty: each once. Nothing predicts token 0. Where
  // the loss is a TokenLoss, it is not asked about tokens of weight 0, and weighs the others
  // itself.
  std::vector<float> weights = {};
  // The experts that each token went to in a rollout, [tokens, MoE layers, k], of all tokens or of
  // all but the last, which predicts nothing; empty: the router chooses.
  std::vector<std::int32_t> routes = {};
  // The experts of the draft layer, [tokens, k]; empty: its router chooses.
  std::vector<std::int32_t> draft_routes = {};

  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
  float weight(std::size_t t) const { return weights.empty() ? 1 : weights[t]; }
};

// Values of each token of a sequence by its place; of token 0 and of those of weight 0 all are 0.
struct TokenScores {
  std::vector<float> log_probs = {};  // after the temperature, as a TokenLoss sees them
  std::vector<float> entropies = {};
  // Log-probabilities before the temperature, computed as serving computes them: the same bits,
  // where backend, formats and layout are the same.
  std::vector<float> served = {};
  // The draft layer's, where it was asked for: what it gives each token from the second on, and
  // the experts that it chose, as TrainSequence has them.
  std::vector<float> draft_log_probs = {};
  std::vector<std::int32_t> draft_routes = {};
};

// Weights and routes fit the tokens, and the tokens fit the model.
Status check_train_sequence(const LoadedModel& model, const TrainSequence& sequence);

// Checks each sequence, named by its number from 1; experts are given of all of them, or of none.
Status check_train_sequences(const LoadedModel& model, std::span<const TrainSequence> all);

// How many first tokens of `a` may stand for those of `b`: the same, with the same experts.
std::size_t common_tokens(const TrainSequence& a, const TrainSequence& b);

// The sequences, cut before each that would make a batch larger than `batch_tokens`. With `shares`
// tokens that a sequence has in common with the one before it in its batch do not count
// (train/packed_rows.h).
std::vector<std::span<const TrainSequence>> batches_of(std::span<const TrainSequence> all,
                                                       std::int64_t batch_tokens, bool shares);

// A batch, or one that is as large as each of several.
struct BatchShape {
  std::int64_t rows = 0;        // that its layers compute
  std::int64_t draft_rows = 0;  // of the draft layer; 0: it does not run
  std::int64_t targets = 0;     // tokens that a loss is taken of
  std::int64_t sequences = 0;
  std::int64_t longest = 0;  // tokens of a sequence
  int pages = 0;             // of the caches
  bool learns = false;       // goes back, too

  bool operator==(const BatchShape&) const = default;
};
BatchShape larger(const BatchShape& a, const BatchShape& b);

// A batch of `rows` tokens to learn from, none of which sequences have in common, or of one
// sequence where that is longer.
BatchShape shape_of(std::int64_t rows, std::int64_t sequences, std::int64_t longest, bool drafts);

// The sequences in as many parts as there are ranks, one after another, of about as many tokens to
// compute each; `shares` as in batches_of(). Parts may be empty.
std::vector<std::span<const TrainSequence>> parts_of(std::span<const TrainSequence> all, int ranks,
                                                     bool shares);

}  // namespace glint
