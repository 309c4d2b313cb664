// Sampling of a slice: its last known token and its drafts, row after row, until a draft was wrong
// or the answer ends.
#pragma once

#include "runtime/slice_run.h"

namespace glint {

// `logits` [1 + drafts, vocab] of the rows; ids from `num_token_ids` on are padding and never come.
struct SliceLogits {
  std::span<const float> logits = {};
  std::size_t vocab = 0;
  std::size_t num_token_ids = 0;

  std::span<const float> row(std::size_t r) const { return logits.subspan(r * vocab, vocab); }
};

// Adds the tokens to the sequence, and to the run's result with what was wanted of them. Penalties
// and the rest see each draft as part of the answer, because a row is looked at only when every
// draft before it was right. Where no token may come the answer ends, if it has begun and its
// grammar lets it end; else the request has failed. `masks` are of the rows, in order; none: every
// token may come.
void sample_slice(Sampler& sampler, const SliceLogits& logits, std::span<const MaskRow> masks,
                  SliceRun& run);

}  // namespace glint
