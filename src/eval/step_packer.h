// StepPacker: many sequences as few steps.
//
// A step reads every weight that its tokens need, so short texts are run together: each step takes
// as many tokens as it may, from the sequence that the step before left unfinished and from the
// next ones. A sequence's result does not depend on what ran beside it.
#pragma once

#include <vector>

#include "runtime/step_rows.h"

namespace glint {

class StepPacker {
 public:
  // `sequences` must outlive the packer; empty ones are skipped.
  StepPacker(const TokenSequences& sequences, int tokens_per_step);

  // Pages that the cache must have for next() never to lack one.
  int pages_needed() const { return pages_needed_; }

  // The next step, whose slices want no logits; without slices when all is done. The pages of
  // sequences that ended in a step are used again by later ones.
  struct Step {
    struct Part {
      std::size_t sequence = 0;
      std::int64_t first = 0, count = 0;  // positions
    };
    std::vector<Part> parts;  // one for each slice
    StepRows plan;
  };
  Step next();

  // Sequences that the steps so far have run to their end: all before this number.
  std::size_t num_done() const { return sequence_; }

 private:
  const TokenSequences& sequences_;
  const int tokens_per_step_;
  int pages_needed_ = 0;
  std::size_t sequence_ = 0;   // that runs next
  std::int64_t position_ = 0;  // its first position that has not run
  std::vector<PageId> pages_;  // those of that sequence, if it has begun
  std::vector<PageId> free_;
};

}  // namespace glint
