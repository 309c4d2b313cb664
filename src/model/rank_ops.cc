#include "model/rank_ops.h"

#include "model/context_ops.h"
#include "model/divided_ops.h"

namespace glint {

std::unique_ptr<Ops> ops_of_rank(std::unique_ptr<Ops> ops, const ModelPartition& partition,
                                 Comm& tp, Comm& cp, ModelWeights& weights) {
  if (partition.is_divided()) {
    ops = std::make_unique<DividedOps>(std::move(ops), partition, tp, weights);
  }
  if (partition.shape.cp > 1) ops = std::make_unique<ContextOps>(std::move(ops), cp);
  return ops;
}

}  // namespace glint
