// GradientPass: the gradient of a loss of given sequences, by the log-probabilities of their
// tokens, as one rank computes it, or its stage of the layers.
//
// A forward pass keeps what enters each layer and what the layer chose: experts and keys. The
// backward pass then computes half a layer at a time again, with these choices, records it, and
// goes back through it: memory holds the temporaries of half a layer, whatever the depth. Where
// batches are known ahead, and a host has memory enough, the forward pass records the layers
// itself: the same bits, in less time. (On a GPU what is recorded rounds otherwise than the blocks
// that serve.) Sequences of a batch lie one after another, without padding, each from position 0.
#pragma once

#include "train/gradient_source.h"
#include "train/packed_rows.h"
#include "train/pass_context.h"
#include "train/pass_trial.h"

namespace glint {

class GradientPass final : public GradientSource {
 public:
  // `model` runs on `tape`, with weights as in their files (Packing::kNever) and caches that are
  // not fp8; both outlive this. Gradients go where the tape was told (Parameters). `host`: the
  // groups of this rank, on the host; `ranks`, of which this is one, share the device's memory.
  GradientPass(LoadedModel& model, TapeOps& tape, const Mesh& host = {}, int ranks = 1);

  // Parts on this stage.
  int parts_of_batch() const { return 2 * model_.partition().layers.size() + 2; }
  int num_batches(std::span<const TrainSequence> sequences, std::int64_t batch_tokens,
                  bool drafts) const;

  Result<LossSums> add(std::span<const TrainSequence> sequences, const LossTerms& terms,
                       std::int64_t batch_tokens, const OnPart& on_part = {}) override;
  Result<std::vector<TokenScores>> score(std::span<const TrainSequence> sequences,
                                         const ScoreTerms& terms, std::int64_t batch_tokens,
                                         const OnPart& on_part = {}) override;

  Status reserve(const BatchShape& most) override;
  // The most that passes have taken so far, without caches and shadow.
  PassMemory used_memory();
  // Whether layers are recorded as they run forward, for which reserve() found plenty of memory.
  bool keeps_layers() const { return context_.keeps_layers; }

  PassProbes& probes() { return context_.probes; }

 private:
  // Sequences are sound, and there is memory for each batch of them.
  Status prepare(std::span<const TrainSequence> sequences, std::int64_t batch_tokens,
                 PassKind kind);
  // Whether plenty of memory is free for layers that are not computed again.
  Result<bool> can_keep_layers(const BatchShape& most);
  // On this rank, with that which batches have.
  std::int64_t free_memory();
  Status make_room_on_all(const BatchShape& most);
  Status make_room(const BatchShape& shape);
  bool reserve(PassTrial& trial, const PassMemory& need, const BatchShape& shape);
  // Whether what sequences have in common is computed once.
  bool shares() const { return model_.partition().shape.cp == 1; }
  std::vector<std::span<const TrainSequence>> own_batches(std::span<const TrainSequence> sequences,
                                                          std::int64_t batch_tokens,
                                                          bool drafts) const;
  std::vector<std::span<const TrainSequence>> batches(std::span<const TrainSequence> sequences,
                                                      std::int64_t batch_tokens, bool drafts) const;
  OnPart after_part(const OnPart& on_part) const;

  LoadedModel& model_;
  const int ranks_;
  PassContext context_;
  BatchShape reserved_ = {};  // for which there is memory
  std::int64_t held_ = 0;     // these bytes
};

}  // namespace glint
