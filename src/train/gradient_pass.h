// GradientPass: the gradient of a loss of given sequences, by the log-probabilities of their
// tokens.
//
// A forward pass keeps what enters each layer and what the layer chose: experts and keys. The
// backward pass then computes one layer at a time again, with these choices, records it, and goes
// back through it: memory holds one layer's temporaries, whatever the depth. Sequences of a batch
// lie one after another, without padding, each from position 0.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/types.h"
#include "runtime/loaded_model.h"
#include "train/parameters.h"
#include "train/train_sequence.h"

namespace glint {

struct LossOptions {
  float temperature = 1;  // logits are divided by it; positive
  // The draft layer's mean cross-entropy counts this much beside the model's. Its gradient flows
  // into the model too. 0: the layer does not run.
  float mtp_weight = 0;
};

// Sums over the tokens that were predicted and whose weight is not 0: each sequence's all but the
// first, and for the draft layer all but the first two.
struct LossSums {
  double nll = 0, mtp_nll = 0;  // minus natural logarithms of probabilities, times the weights
  std::int64_t tokens = 0, mtp_tokens = 0;

  double mean() const { return nll / static_cast<double>(tokens); }
  double mtp_mean() const { return mtp_nll / static_cast<double>(mtp_tokens); }
};

// A loss of the caller's own, by the derivatives that it has at the log-probabilities and entropies
// that a pass has just computed.
class TokenLoss {
 public:
  virtual ~TokenLoss() = default;

  // Looks at tokens first, first + 1, ... of sequence number `sequence` of the call (`first` >= 1:
  // nothing predicts token 0), and writes the derivatives of the loss by each log-probability and
  // each entropy, both in nats and after the temperature; they are 0 before. A sequence comes in
  // order, in one or more pieces. log_probs[i] is NaN where a logit is no number.
  virtual void weigh(std::size_t sequence, std::int64_t first, std::span<const float> log_probs,
                     std::span<const float> entropies, std::span<float> d_log_probs,
                     std::span<float> d_entropies) = 0;
};

// The loss of one call: all scales are the caller's, so that calls add up to one gradient.
struct LossTerms {
  float temperature = 1;  // logits are divided by it; positive
  // The loss is scale * (sum of weight * -log p of the tokens) + mtp_scale * (the same of the draft
  // layer, which runs if this is not 0).
  double scale = 1, mtp_scale = 0;
  TokenLoss* loss = nullptr;  // in place of the first term
};

class GradientPass {
 public:
  // `model` runs on `tape`, with weights as in their files (Packing::kNever) and caches that are
  // not fp8; both outlive this. Gradients go where the tape was told (Parameters).
  GradientPass(LoadedModel& model, TapeOps& tape);

  // Called after each of the parts of a batch; false ends the pass with an error.
  using OnPart = std::function<bool()>;
  int parts_of_batch() const { return 2 * model_.config().num_hidden_layers + 2; }
  int parts_of_scored_batch() const { return model_.config().num_hidden_layers + 1; }

  // Adds the gradient of mean + mtp_weight * mtp_mean to the parameters', where the means are over
  // all tokens of `sequences`. These are cut into batches of at most `batch_tokens` tokens, or of
  // one longer sequence. Fails, naming the sequence, on tokens that the model does not have, and
  // where nothing is predicted.
  Result<LossSums> run(const TokenSequences& sequences, const LossOptions& options,
                       std::int64_t batch_tokens, const OnPart& on_part = {});
  // Adds the gradient of `terms`. A sequence that predicts nothing adds nothing. With `terms.loss`
  // the sums are of the plain cross-entropy beside it. After a failure gradients are worthless.
  Result<LossSums> add(std::span<const TrainSequence> sequences, const LossTerms& terms,
                       std::int64_t batch_tokens, const OnPart& on_part = {});
  // A forward pass alone: one result a sequence. `drafts`: of the draft layer too.
  Result<std::vector<TokenScores>> score(std::span<const TrainSequence> sequences,
                                         float temperature, std::int64_t batch_tokens,
                                         const OnPart& on_part = {}, bool drafts = false);
  static int num_batches(const TokenSequences& sequences, std::int64_t batch_tokens);
  static int num_batches(std::span<const TrainSequence> sequences, std::int64_t batch_tokens);

  // For tests: shows the logits [R, vocab] of rows of a batch in order; and demands after each
  // layer that no gradient is left over.
  std::function<void(const Tensor& logits)> on_logits = {};
  bool checks_remains = false;

 private:
  class BatchPass;

  // Sequences are sound, and the caches hold each batch of them.
  Status prepare(std::span<const TrainSequence> sequences, bool mtp, std::int64_t batch_tokens);

  LoadedModel& model_;
  TapeOps& tape_;
  Arena arena_;    // what a pass takes, and keeps for its backward pass
  Arena saved_;    // what a batch keeps between forward and backward
  Arena scratch_;  // of the loss
  Shadow shadow_;
};

}  // namespace glint
