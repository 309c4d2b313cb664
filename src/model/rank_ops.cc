#include "model/rank_ops.h"

#include "model/context_ops.h"
#include "model/divided_ops.h"

namespace glint {

std::unique_ptr<Ops> ops_of_rank(std::unique_ptr<Ops> ops, const ShardPlan& shard, Comm& tp,
                                 Comm& cp, ModelWeights& weights) {
  if (shard.is_divided()) {
    ops = std::make_unique<DividedOps>(std::move(ops), shard, tp, weights);
  }
  if (shard.shape.cp > 1) ops = std::make_unique<ContextOps>(std::move(ops), cp);
  return ops;
}

}  // namespace glint
