// SliceRun: one slice of a step on its way through the executor, at the place where its sequence
// really is.
#pragma once

#include <algorithm>

#include "engine/step_plan.h"
#include "runtime/sequence_state.h"

namespace glint {

struct SliceRun {
  const SeqSlice* slice = nullptr;
  std::shared_ptr<SequenceState> sequence = {};
  std::span<const PageId> pages = {};
  StepResult::Sampled* result = nullptr;
  // Rows [first, first + known) run tokens of the sequence, and then come the drafts. Drafts that
  // only the device knows are places among its guesses (ops/sequences.h) until they are read.
  int first = 0;
  int known = 0;
  // The only known token is the last of the seat; `first` is the most it may be until it is read.
  bool pending = false;
  std::vector<TokenId> drafts = {};
  int row_begin = 0;            // its rows in its replica's part of the step
  int logit_begin = 0;          // and the sampling ones among the logits
  int num_prompt_logprobs = 0;  // asked for

  bool late = false;                     // its masks are not there
  std::shared_ptr<MaskTask> masks = {};  // of its sampling rows
  bool constrained() const {
    return slice->sample && !sequence->ended && sequence->request->constraint;
  }

  int count() const { return known + static_cast<int>(drafts.size()); }
  int sampling_rows() const { return slice->sample ? 1 + static_cast<int>(drafts.size()) : 0; }
  // Rows whose tokens are certain after sampling: the known ones and the drafts that were right.
  int certain_rows() const {
    return known + std::max(0, static_cast<int>(result->tokens.size()) - 1);
  }
  // How many tokens it may still get from this step.
  int limit() const {
    return std::min(slice->max_new, sequence->request->max_tokens - sequence->answered());
  }
};

}  // namespace glint
