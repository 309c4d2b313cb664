// Made-up weights, in the memory of a device: for the time that a model takes there.
#pragma once

#include "model/null_weights.h"

namespace glint {

// The part of a model that `partition` holds: numbers of order 0.02, and norms of ones, so that
// activations stay of order one. A stretch of random numbers again and again: nothing comes over
// the bus but that stretch; the router, which is shorter, has none twice. Fails with one sentence
// if `device` has no room.
Result<ModelWeights> make_up_weights(const ModelConfig& config, const ModelPartition& partition,
                                     const NullWeightOptions& options, Device& device);

}  // namespace glint
