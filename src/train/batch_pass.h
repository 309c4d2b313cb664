// BatchPass: one batch on this stage, forward and backward: what a pass over its sequences chose,
// and keeps in `saved` until it is gone.
//
// Memory of the work itself is there from begin() to the end of the forward pass, and again in the
// backward pass: other batches may come between.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/batch.h"
#include "train/loss_head.h"

namespace glint {

class BatchPass {
 public:
  using Sequences = std::span<const TrainSequence>;
  using OnPart = GradientSource::OnPart;

  // terms.first_sequence is that of `sequences`. `done` is called after each part, and may end it.
  // All outlive it.
  BatchPass(PassContext& context, Sequences sequences, const LossTerms& terms, const OnPart& done,
            Arena& saved);

  // Takes what enters the first layer of this stage.
  void begin();
  // Runs the layers, and hands on to the next stage. It `keeps` what a backward pass needs.
  Status forward(bool keeps);
  // Adds to the parameters' gradients and, on the last stage, to `sums`.
  Status backward(LossSums& sums);
  // To the stage before, after backward().
  void send_gradient() { m_.mesh.pp->send(gradient_, m_.partition.stage - 1); }
  // Alone: adds one result a sequence, on the last stage.
  Status score(std::vector<TokenScores>& scores, bool drafts);

 private:
  // Layers on the tape, from the forward pass to the backward pass.
  struct Record {
    explicit Record(PassContext& context) : tape(context.tape), retain(context.arena) {}
    ~Record() { tape.forget(); }

    TapeOps& tape;
    Arena::Retain retain;
    std::vector<std::size_t> marks = {};  // where each layer begins
  };
  // The memory of a pass.
  struct Work {
    Work(PassContext& context, const Model& m, const PackedRows& packed);

    Arena::Scope scope;
    Batch batch;
    Pass pass;
    std::optional<Record> record = {};
  };
  Pass& pass() { return work_->pass; }
  const Tensor& residual() const { return work_->pass.stream.x; }

  // The final norm, the losses and the draft layer, and back to the gradient of the residual.
  void head(LossSums& sums);
  // The draft layer and its loss, recorded; that loss.
  double add_drafts(const Tensor& hidden);
  // add_drafts() and back, where the draft layer learns alone.
  double learn_drafts_alone(const Tensor& hidden);
  // The draft layer on the final states of all rows, each part of it by `run`.
  template <class Run>
  MtpArgs run_drafts(const Tensor& hidden, const PackedRows& draft, const Run& run);
  void score_drafts(const Tensor& hidden, std::span<TokenScores> scores);
  Status layers_back();
  // The place of a layer among those of this stage.
  std::size_t place_of(int layer) const {
    return static_cast<std::size_t>(layer - m_.partition.layers.begin);
  }
  // Half a layer, computed again: its temporaries are gone before those of the other half come.
  void feed_forward_back(int layer);
  void attention_back(int layer);
  void embed_back();
  // Keeps the gradient of this stage's input, for the stage before.
  void keep_gradient();
  // A copy that lives as long as the batch.
  Tensor keep(const Tensor& x);
  void expect_no_remains(const Tensor& except, const char* after) const;

  PassContext& context_;
  const Model m_;
  const Sequences sequences_;
  const LossTerms terms_;
  const OnPart& done_;
  Arena& saved_;
  const Arena::Scope saved_scope_;
  const PackedRows packed_;
  const std::int64_t T_;
  LossHead loss_;
  std::optional<Work> work_;
  Tensor gradient_;               // of what entered: [T, hidden] f32
  std::vector<Tensor> inputs_;    // of each layer: [T, hidden] f32
  std::vector<Tensor> answers_;   // of each attention: [T, hidden], of the activations' type
  std::vector<Tensor> routed_;    // [T, k] i32, empty of dense layers
  std::vector<Tensor> selected_;  // [T, index_topk] i32
};

}  // namespace glint
