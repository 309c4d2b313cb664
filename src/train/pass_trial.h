// PassTrial: what the passes of a batch take, before there is one: BatchPass itself over ops that
// compute nothing and memory that is only counted (runtime/step_trial.h).
#pragma once

#include <memory>
#include <optional>

#include "autograd/tape_comm.h"
#include "ops/plan_gradients.h"
#include "runtime/step_trial.h"
#include "train/train_sequence.h"

namespace glint {

// Bytes.
struct PassMemory {
  std::int64_t pass = 0;       // arena of the layers; a shadow of it in f32, and one of bf16
  std::int64_t shadow = 0;     // these
  std::int64_t saved = 0;      // arena of a forward pass until its batch comes back
  std::int64_t cache = 0;      // of keys, and of their gradient
  std::int64_t scratch = 0;    // of the ops
  std::int64_t gradients = 0;  // of the backward passes
  std::int64_t exchanged = 0;  // of gradients on their way between ranks
  std::int64_t edges = 0;      // of these stretches, which the host begins and ends with huge pages

  std::size_t num_saved = 1;  // batches that are kept at once

  std::int64_t total() const {
    return pass + shadow + static_cast<std::int64_t>(num_saved) * saved + cache + scratch +
           gradients + exchanged + edges;
  }
};

class PassTrial {
 public:
  // For a model whose passes run on `tape`.
  static Result<std::unique_ptr<PassTrial>> make(LoadedModel& model, TapeOps& tape);

  // The most of a pass forward and, where it learns, of one forward and back. `keeps_layers`: as in
  // PassContext.
  Result<PassMemory> run(BatchShape shape, bool keeps_layers);
  // The backend and `tape` hold what the trials so far take of their own memory. False: there is no
  // room.
  bool reserve_scratch() { return ops_->reserve() && gradients_->reserve(); }

 private:
  explicit PassTrial(LoadedModel& model) : model_(model), device_(&model.backend().device()) {}

  LoadedModel& model_;
  NullDevice device_;
  std::unique_ptr<StepTrial> trial_;
  PlanOps* ops_ = nullptr;
  PlanGradients* gradients_ = nullptr;
  TapeOps* tape_ = nullptr;  // owns both
  std::optional<TapeComm> tp_, cp_, ep_;
  std::unique_ptr<Ops> decorated_;  // as the model's, the tape innermost
};

}  // namespace glint
