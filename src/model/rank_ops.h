// The ops of a rank: in front of a backend's own, what its layout needs to meet the others.
#pragma once

#include <memory>

#include "comm/comm.h"
#include "model/model_partition.h"
#include "model/weights.h"
#include "ops/ops.h"

namespace glint {

// `ops`, behind DividedOps where `partition` divides products or cuts their sums, and behind
// ContextOps where ranks share sequences. `weights` may still be empty. All but `ops` outlive the
// result.
std::unique_ptr<Ops> ops_of_rank(std::unique_ptr<Ops> ops, const ModelPartition& partition,
                                 Comm& tp, Comm& cp, ModelWeights& weights);

}  // namespace glint
