// GradientPass: the gradient of a loss of given sequences, by the log-probabilities of their
// tokens, as one rank computes it, or its stage of the layers.
//
// A forward pass keeps what enters each layer and what the layer chose: experts and keys. The
// backward pass then computes one layer at a time again, with these choices, records it, and goes
// back through it: memory holds one layer's temporaries, whatever the depth. Sequences of a batch
// lie one after another, without padding, each from position 0.
#pragma once

#include "train/gradient_source.h"
#include "train/pass_context.h"

namespace glint {

class GradientPass final : public GradientSource {
 public:
  // `model` runs on `tape`, with weights as in their files (Packing::kNever) and caches that are
  // not fp8; both outlive this. Gradients go where the tape was told (Parameters).
  GradientPass(LoadedModel& model, TapeOps& tape);

  // Parts on this stage.
  int parts_of_batch() const { return 2 * model_.shard().layers.size() + 2; }
  int num_batches(std::span<const TrainSequence> sequences,
                  std::int64_t batch_tokens) const override;

  Result<LossSums> add(std::span<const TrainSequence> sequences, const LossTerms& terms,
                       std::int64_t batch_tokens, const OnPart& on_part = {}) override;
  Result<std::vector<TokenScores>> score(std::span<const TrainSequence> sequences,
                                         float temperature, std::int64_t batch_tokens,
                                         const OnPart& on_part = {}, bool drafts = false) override;

  PassProbes& probes() { return context_.probes; }

 private:
  // Sequences are sound, and the caches hold each batch of them.
  Status prepare(std::span<const TrainSequence> sequences, bool mtp, std::int64_t batch_tokens);
  std::vector<std::span<const TrainSequence>> batches(std::span<const TrainSequence> sequences,
                                                      std::int64_t batch_tokens) const;
  OnPart after_part(const OnPart& on_part) const;

  LoadedModel& model_;
  PassContext context_;
};

}  // namespace glint
