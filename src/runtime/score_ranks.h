// Scoring over ranks: sequences are dealt out to the replicas, which step together.
#pragma once

#include "runtime/ranks.h"
#include "runtime/score.h"

namespace glint {

// The score of each sequence, if check_sequence() has no objection to any. `sinks(i)` are those of
// sequence i, called from the threads of its replica's ranks: several at a time. options.done is
// called from all ranks; where it returns false once, all stop after the same step.
Result<std::vector<Score>> score(Ranks& ranks, std::span<const std::vector<TokenId>> sequences,
                                 const ScoreOptions& options,
                                 const std::function<ScoreSinks(std::size_t)>& sinks);

}  // namespace glint
