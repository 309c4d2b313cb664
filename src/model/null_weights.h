// The weights that a rank would hold, without what is in them: for plans, on a NullDevice, and for
// times.
#pragma once

#include <functional>

#include "model/weights.h"
#include "tensor/device.h"

namespace glint {

struct NullWeightOptions {
  // The format of each matrix.
  std::function<WeightFormat(const ModelTensor&)> format = {};
  bool with_mtp = false;
  // Ranks that divide each matrix as the table's Split says. A share that does not come out even is
  // rounded up: the largest rank's.
  int tp = 1;
  // In which a rank has its columns of what is_summed(): ModelPartition::own_slices.
  int slices = 1;
  // The type of kv_b_proj's halves where they cannot keep its format.
  DType activations = DType::kBF16;
};

// The part of the model that `partition` holds, in memory of `device`, which no one has written;
// where it had no room, a buffer of `owned` is empty. With partition.shape.ep above 1 experts are
// whole, the routed ones dealt out; else each is divided over `tp`.
ModelWeights null_weights(const ModelConfig& config, const ModelPartition& partition,
                          const NullWeightOptions& options, Device& device);

}  // namespace glint
