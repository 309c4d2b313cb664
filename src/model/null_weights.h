// The weights that a rank would hold, without their memory: for plans.
#pragma once

#include <functional>

#include "model/weights.h"
#include "tensor/null_device.h"

namespace glint {

struct NullWeightOptions {
  // The format of each matrix.
  std::function<WeightFormat(const ModelTensor&)> format = {};
  bool with_mtp = false;
  // Ranks that divide each matrix as the table's Split says. A share that does not come out even is
  // rounded up: the largest rank's.
  int tp = 1;
  // The type of kv_b_proj's halves where they cannot keep its format.
  DType activations = DType::kBF16;
};

// The part of the model that `shard` holds, at addresses of `device`. With shard.shape.ep above 1
// routed experts are dealt out whole; else each is divided over `tp`.
ModelWeights null_weights(const ModelConfig& config, const ShardPlan& shard,
                          const NullWeightOptions& options, NullDevice& device);

}  // namespace glint
