// GradientPass: the gradient of the mean cross-entropy of given sequences.
//
// A forward pass keeps what enters each layer and what the layer chose: experts and keys. The
// backward pass then computes one layer at a time again, with these choices, records it, and goes
// back through it: memory holds one layer's temporaries, whatever the depth. Sequences of a batch
// lie one after another, without padding, each from position 0.
#pragma once

#include <functional>
#include <vector>

#include "base/types.h"
#include "runtime/loaded_model.h"
#include "train/parameters.h"

namespace glint {

struct LossOptions {
  float temperature = 1;  // logits are divided by it; positive
  // The draft layer's mean cross-entropy counts this much beside the model's. Its gradient flows
  // into the model too. 0: the layer does not run.
  float mtp_weight = 0;
};

// Sums over the tokens that were predicted: each sequence's all but the first, and for the draft
// layer all but the first two.
struct LossSums {
  double nll = 0, mtp_nll = 0;  // minus natural logarithms of probabilities
  std::int64_t tokens = 0, mtp_tokens = 0;

  double mean() const { return nll / static_cast<double>(tokens); }
  double mtp_mean() const { return mtp_nll / static_cast<double>(mtp_tokens); }
};

class GradientPass {
 public:
  // `model` runs on `tape`, with weights as in their files (Packing::kNever) and caches that are
  // not fp8; both outlive this. Gradients go where the tape was told (Parameters).
  GradientPass(LoadedModel& model, TapeOps& tape);

  // Called after each of the 2 * layers + 2 parts of a batch; false ends the pass with an error.
  using OnPart = std::function<bool()>;
  int parts_of_batch() const { return 2 * model_.config().num_hidden_layers + 2; }

  // Adds the gradient of mean + mtp_weight * mtp_mean to the parameters', where the means are over
  // all tokens of `sequences`. These are cut into batches of at most `batch_tokens` tokens, or of
  // one longer sequence. Fails, naming the sequence, on tokens that the model does not have, and
  // where nothing is predicted.
  Result<LossSums> run(const TokenSequences& sequences, const LossOptions& options,
                       std::int64_t batch_tokens, const OnPart& on_part = {});
  static int num_batches(const TokenSequences& sequences, std::int64_t batch_tokens);

  // For tests: shows the logits [R, vocab] of rows of a batch in order; and demands after each
  // layer that no gradient is left over.
  std::function<void(const Tensor& logits)> on_logits = {};
  bool checks_remains = false;

 private:
  class BatchPass;

  LoadedModel& model_;
  TapeOps& tape_;
  Arena arena_;    // what a pass takes, and keeps for its backward pass
  Arena saved_;    // what a batch keeps between forward and backward
  Arena scratch_;  // of the loss
  Shadow shadow_;
};

}  // namespace glint
