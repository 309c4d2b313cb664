// GradientPass: the gradient of a loss of given sequences, by the log-probabilities of their
// tokens, as one rank computes it, or its stage of the layers.
//
// A forward pass keeps what enters each layer and what the layer chose: experts and keys. The
// backward pass then computes one layer at a time again, with these choices, records it, and goes
// back through it: memory holds one layer's temporaries, whatever the depth. Sequences of a batch
// lie one after another, without padding, each from position 0.
#pragma once

#include <memory>

#include "runtime/loaded_model.h"
#include "train/gradient_source.h"
#include "train/parameters.h"

namespace glint {

class GradientPass final : public GradientSource {
 public:
  // `model` runs on `tape`, with weights as in their files (Packing::kNever) and caches that are
  // not fp8; both outlive this. Gradients go where the tape was told (Parameters).
  GradientPass(LoadedModel& model, TapeOps& tape);

  // Parts on this stage.
  int parts_of_batch() const { return 2 * model_.shard().layers.size() + 2; }
  int parts_of_scored_batch() const { return model_.shard().layers.size() + 1; }
  int num_batches(std::span<const TrainSequence> sequences,
                  std::int64_t batch_tokens) const override;

  Result<LossSums> add(std::span<const TrainSequence> sequences, const LossTerms& terms,
                       std::int64_t batch_tokens, const OnPart& on_part = {}) override;
  Result<std::vector<TokenScores>> score(std::span<const TrainSequence> sequences,
                                         float temperature, std::int64_t batch_tokens,
                                         const OnPart& on_part = {}, bool drafts = false) override;

  // For tests: shows the logits [R, vocab] of rows of a batch in order; and demands after each
  // layer that no gradient is left over.
  std::function<void(const Tensor& logits)> on_logits = {};
  bool checks_remains = false;

 private:
  class BatchPass;
  class Stage;

  // Sequences are sound, and the caches hold each batch of them.
  Status prepare(std::span<const TrainSequence> sequences, bool mtp, std::int64_t batch_tokens);
  std::vector<std::span<const TrainSequence>> batches(std::span<const TrainSequence> sequences,
                                                      std::int64_t batch_tokens) const;
  OnPart after_part(const OnPart& on_part) const;
  // Whether all stages go on: the first decides, each hears it from the one before and tells the
  // next.
  void hear(const OnPart& on_part);
  void tell();
  // Memory that a batch keeps between forward and backward, of several at once.
  Arena& saved(std::size_t i);

  LoadedModel& model_;
  TapeOps& tape_;
  Arena arena_;  // what a pass takes, and keeps for its backward pass
  std::vector<std::unique_ptr<Arena>> saved_;
  Arena scratch_;  // of the loss
  Shadow shadow_;
  bool goes_on_ = true;
};

}  // namespace glint
