// Sampling of a slice: its last known token and its drafts, row after row, until a draft was wrong
// or the answer ends.
#pragma once

#include "runtime/sample_rows.h"
#include "runtime/slice_run.h"

namespace glint {

// Whether what may come next depends on the tokens of the answer, and not just on their number.
bool reads_answer(const Request& request);

// Whether it depends on that number where the host does not know it: how many drafts were right.
inline bool needs_size(const SequenceState& sequence) {
  return sequence.drafts_in_flight > 0 &&
         sequence.launched_size() - sequence.prompt_size() < sequence.request->min_tokens;
}

// Adds the slice's sampling rows, each as if every draft before it had been right: penalties and
// the rest see it as part of the answer, which must be read where they look at it (reads_answer).
// `masks` are of the rows, in order; none: every token may come.
void add_rows(const SliceRun& run, std::span<const MaskRow> masks, SampleRows& rows);

// Takes what was drawn for these rows into the sequence and the run's result, with what was wanted
// of it but log-probabilities. A row is looked at only when every draft before it was right. Where
// no token may come the answer ends, if it has begun and its grammar lets it end; else the request
// has failed.
void take_rows(std::span<const std::int32_t> drawn, std::span<const MaskRow> masks, SliceRun& run);

}  // namespace glint
