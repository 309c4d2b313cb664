// The passes of a step, from its rows to their results: what a loaded model runs, and what a plan
// of memory runs over ops that compute nothing.
#pragma once

#include <functional>

#include "model/glm.h"
#include "runtime/batch.h"

namespace glint {

struct StepOptions {
  bool routed = false;     // also tell which experts were chosen
  bool to_host = true;     // copy logits and chosen experts to the host
  SeatTensors seats = {};  // empty: every slice's tokens are known
  const Taps* taps = nullptr;
  bool graphs = false;  // decode steps are recorded once and repeated (StepGraphs)
  int max_drafts = 0;   // of a sequence in such a step
  // All replicas that share experts: their graphs have one size. Empty: there are no others.
  std::span<const StepRows> replicas = {};
  Event* begun = nullptr;  // set to the time before a graph's first op
};

// Runs a batch through this rank's layers (forward); results lie in the arena's present scope.
ForwardArgs run_batch(const Model& model, const Batch& batch, const StepOptions& options,
                      Arena& arena);

// run_batch() of the batch that `rows` make.
ForwardArgs run_step(const Model& model, const StepRows& rows, const Tensor& rope_table,
                     const StepOptions& options, Arena& arena);

// Memory for hidden states [rows, hidden] that a pass gathers: their places, and the rows.
struct GatheredRows {
  Tensor places = {};  // [rows] i32
  Tensor hidden = {};
};
GatheredRows take_gathered(const Model& model, std::int64_t rows, Arena& arena);

// The MTP layer's results: logits of the rows that wanted them, and of each slice's last row, or of
// all, the hidden state and the keys, from which a next draft goes on.
struct DraftResults {
  Tensor logits = {};    // [R, V] f32
  Tensor hidden = {};    // [S, hidden], or [T, hidden]
  Tensor selected = {};  // [S, index_topk] i32, or [T, index_topk]
};

struct DraftOptions {
  SeatTensors seats = {};  // empty: every slice's tokens are known
  bool all_rows = false;   // results are of all rows
  // [T, index_topk] slots that an earlier draft selected, on the host or on the device; neither:
  // they are selected.
  std::span<const std::int32_t> selection = {};
  Tensor selected = {};
};

// Runs a batch, whose tokens are each row's next, through the MTP layer. `last` are its slices'
// last rows. `target` may take memory.
DraftResults run_draft_batch(const Model& model, const Batch& batch,
                             std::span<const std::int32_t> last,
                             const std::function<Tensor()>& target, const DraftOptions& options,
                             Arena& arena);

// run_draft_batch() of the batch that `rows` make; `target` is called once the batch is there.
DraftResults run_draft(const Model& model, StepRows rows, const Tensor& rope_table,
                       const std::function<Tensor()>& target, const DraftOptions& options,
                       Arena& arena);

// Logits [R, V] f32 of hidden states.
Tensor run_head(const Model& model, const Tensor& hidden, Arena& arena);

}  // namespace glint
