// The passes of a step, from a plan to their results: what a loaded model runs, and what a plan of
// memory runs over ops that compute nothing.
#pragma once

#include "engine/step_plan.h"
#include "model/glm.h"
#include "runtime/batch.h"

namespace glint {

// Runs `plan` through this rank's layers (forward); results lie in the arena's present scope.
// `routed`: the chosen experts are wanted.
ForwardArgs run_step(const Model& model, const StepPlan& plan, const Tensor& rope_table,
                     bool routed, const Taps* taps, Arena& arena);

// Memory for hidden states [rows, hidden] that a pass gathers: their places, and the rows.
struct GatheredRows {
  Tensor places = {};  // [rows] i32
  Tensor hidden = {};
};
GatheredRows take_gathered(const Model& model, std::int64_t rows, Arena& arena);

// Runs the rows of `plan`, whose tokens are each row's next, through the MTP layer. `target` is
// asked for when the batch is there, and may take memory. `selection`: slots that an earlier draft
// selected; empty: they are selected.
MtpArgs run_draft(const Model& model, StepPlan plan, const Tensor& rope_table,
                  const std::function<Tensor()>& target, std::span<const std::int32_t> selection,
                  Arena& arena);

// Logits [R, V] f32 of hidden states.
Tensor run_head(const Model& model, const Tensor& hidden, Arena& arena);

}  // namespace glint
