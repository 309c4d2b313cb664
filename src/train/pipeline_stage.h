// PipelineStage: a stage's part in the batches of a call: one forward, one backward (1F1B).
//
// As many batches as there are stages behind go ahead; then each one more waits until the oldest
// has come back, so that what is saved of them does not grow with their number.
//
// To the right a stage sends before it receives, to the left it receives before it sends: so two
// that meet always do the same of what one wants to send and the other to receive. The first
// decides before each batch whether all go on, and tells with it: what was begun is finished.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "train/batch_pass.h"
#include "train/rank_agreement.h"

namespace glint {

class PipelineStage {
 public:
  using Make = std::function<std::unique_ptr<BatchPass>(std::size_t batch, Arena& saved)>;
  // `context` and `on_part` outlive it.
  PipelineStage(PassContext& context, std::size_t batches, const GradientSource::OnPart& on_part,
                Make make);

  // Batches of a stage that memory is kept of at once: two more than there are stages behind, as
  // the oldest is sent back when the next is there. Without other stages one.
  static std::size_t num_saved(const ModelPartition& partition) {
    const int stages = partition.shape.pp;
    return stages == 1 ? 1 : static_cast<std::size_t>(stages - partition.stage + 1);
  }

  // Adds the losses of all batches to `sums`, on the last stage.
  Status run(LossSums& sums);

 private:
  // The next batch, from the stage before: it comes, or nothing does any more.
  void begin();
  Status finish();
  // Stages after this one.
  std::size_t behind() const {
    return static_cast<std::size_t>(partition_.shape.pp - partition_.stage - 1);
  }

  PassContext& context_;
  const ModelPartition& partition_;
  StageSignal signal_;
  const std::size_t batches_;
  const GradientSource::OnPart& on_part_;
  const Make make_;
  std::size_t count_ = 0;  // batches that have come
  bool is_told_ = true;    // whether the next stage knows of the last that was heard of
  std::unique_ptr<BatchPass> next_;
  std::deque<std::unique_ptr<BatchPass>> begun_;
};

}  // namespace glint
