// Scoring: what the model says at every position of a given text. How anyone checks us against
// another implementation.
#pragma once

#include <functional>
#include <span>

#include "runtime/loaded_model.h"

namespace glint {

struct ScoreOptions {
  int chunk = 256;   // tokens per step; the result does not depend on it
  bool mtp = false;  // run the MTP layer as well
  // For a model over ranks: lengths of the sequences that the replicas score together, with this
  // one's, which may be 0. All ranks score together; numbers come from the last stage.
  std::vector<std::int64_t> lengths = {};
  // Where ranks share this sequence: which of the `parts` of each chunk's rows this one runs.
  int part = 0, parts = 1;
  // After each step, with its tokens. False: to go no further, which is a failure.
  std::function<bool(std::int64_t tokens)> done = {};
};

// How well tokens were predicted.
struct Prediction {
  double nll = 0;           // summed cross-entropy, in nats; NaN if a logit was no number
  std::int64_t tokens = 0;  // that were predicted
  std::int64_t top1 = 0;    // of them, how many were the most likely token

  void add(const Prediction& other);
  // These need at least one token.
  double perplexity() const;
  double top1_share() const;
};

// Where the numbers go; each may be empty. Rows `first` to first + n - 1 come in order, several at
// a time.
struct ScoreSinks {
  // [n, V]
  std::function<void(std::int64_t first, std::span<const float> logits)> logits;
  // [n, V], row p: from hidden state p and token p + 1
  std::function<void(std::int64_t first, std::span<const float> logits)> mtp;
  // The residual stream that enters layer `layer`, and at layer == num_hidden_layers the hidden
  // state after the final norm (as transformers lists them): [n, hidden].
  std::function<void(int layer, std::int64_t first, std::span<const float> hidden)> hidden;
  // The positions that layer `layer` selected, ascending, -1 at the end: [n, index_topk].
  std::function<void(int layer, std::int64_t first, std::span<const std::int32_t> positions)>
      selected;
};

// Row p: how well the model predicted token p + 1, and the MTP layer token p + 2. Each may be
// empty.
struct JudgedRows {
  std::function<void(std::int64_t row, const Prediction&one)> model = {}, mtp = {};
};

struct Score {
  Prediction model = {};  // positions 1 ..
  Prediction mtp = {};    // positions 2 .., by the MTP layer

  void add(const Score& other) {
    model.add(other.model);
    mtp.add(other.mtp);
  }
};

// Fails on an empty sequence, an id outside the vocabulary, or more tokens than the model has
// positions.
Status check_sequence(const ModelConfig& model, std::span<const TokenId> ids);

// Makes room for scores of sequences of up to `longest` tokens, and a cache for one of them. On all
// ranks or none.
Status reserve_scores(LoadedModel& model, std::int64_t longest, const ScoreOptions& options);

// Scores one sequence, if check_sequence() has no objection, after reserve_scores().
Result<Score> score_reserved(LoadedModel& model, std::span<const TokenId> ids,
                             const ScoreOptions& options, const ScoreSinks& sinks = {},
                             const JudgedRows& judged = {});

// Both.
Result<Score> score(LoadedModel& model, std::span<const TokenId> ids, const ScoreOptions& options,
                    const ScoreSinks& sinks = {});

}  // namespace glint
