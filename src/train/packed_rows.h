// PackedRows: sequences as the rows of one batch.
//
// Tokens that a sequence has in common with the one before it, from the first on, are computed
// once: the prompt of a group of answers, the system's message of all conversations. Later rows
// read the keys of earlier ones through page tables that name the same pages. Where sequences part
// within a page, each has a page of its own there, and the keys before that point are copied
// (TapeOps).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/tape_ops.h"
#include "runtime/step_rows.h"
#include "train/train_sequence.h"

namespace glint {

struct PackedRows {
  StepRows rows = {};
  std::vector<std::vector<std::int32_t>> row_of = {};  // [sequences][tokens]; -1: on another rank
  std::vector<std::int64_t> shared = {};  // [sequences]: tokens whose rows are an earlier one's
  std::vector<KeyCopy> copies = {};
  int num_pages = 0;

  std::int64_t size() const { return static_cast<std::int64_t>(rows.tokens.size()); }
};
// Without `shares` each sequence has all of its rows.
PackedRows pack(std::span<const TrainSequence> sequences, bool shares);

// Part number `part` of `parts` of all rows, where each rank runs one; all keys are on each.
PackedRows part_of(const PackedRows& all, int part, int parts);

// The rows of the draft layer, which sees the token after each row's, so that nothing is shared.
// It sees no embedding at position 0; the last row of a sequence predicts nothing, and no other row
// sees that.
PackedRows pack_for_draft(std::span<const TrainSequence> sequences);

// A pass of a batch.
struct PassKind {
  bool drafts = false;  // runs the draft layer, too
  bool learns = false;  // goes back, too
  bool shares = false;  // computes once what sequences have in common
};
BatchShape batch_shape(std::span<const TrainSequence> batch, const PassKind& kind);

// The tokens that a loss is taken of, those whose weight is not 0, in order.
struct LossRows {
  struct Place {
    std::size_t sequence = 0;
    std::int64_t token = 0;
  };
  std::vector<Place> places = {};
  std::vector<std::int32_t> rows = {};  // that predict them
  std::vector<std::int32_t> ids = {};
  std::vector<float> weights = {};

  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
};
// Each token is predicted by the row of the one `ahead` tokens before it; those that are not here
// are left out.
LossRows loss_rows(std::span<const TrainSequence> sequences, const PackedRows& packed,
                   std::size_t ahead);

}  // namespace glint
