#include "model/shard_plan.h"

#include "base/str.h"

namespace glint {

std::string describe(const MeshShape& shape) {
  return str("dp ", shape.dp, ", ep ", shape.ep, ", pp ", shape.pp);
}

bool ShardPlan::holds(const ModelTensor& tensor, const ModelConfig& config) const {
  if (tensor.layer >= config.num_hidden_layers) return is_last();
  if (tensor.layer >= 0) return layers.holds(tensor.layer);
  if (tensor.role != TensorRole::kEmbedding) return is_last();
  return is_first() || (is_last() && config.num_nextn_predict_layers > 0);
}

ExpertRange experts_of(int num_experts, int rank, int size) {
  const auto begin = [&](int r) { return static_cast<int>(std::int64_t{num_experts} * r / size); };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

Status check_shape(const MeshShape& shape) {
  constexpr int kMostRanks = 1024;
  if (shape.dp < 1 || shape.ep < 1 || shape.pp < 1 || shape.dp > kMostRanks ||
      shape.pp > kMostRanks || shape.num_ranks() > kMostRanks) {
    return invalid(str(describe(shape), ": each must be 1 or more, and the ranks at most ",
                       kMostRanks, " in all"));
  }
  if (shape.ep != 1 && shape.ep != shape.dp) {
    return invalid(str("ep is ", shape.ep, ", but experts are shared by all ", shape.dp,
                       " shards of a stage or by none; set ep to ", shape.dp, " or to 1"));
  }
  return Ok{};
}

Result<ShardPlan> plan_shard(const ModelConfig& config, const MeshShape& shape, int rank) {
  GLINT_TRY_STATUS(check_shape(shape));
  if (shape.pp > config.num_hidden_layers) {
    return invalid(str("pp is ", shape.pp, ", but the model has ", config.num_hidden_layers,
                       " layers; every stage needs one"));
  }
  if (shape.ep > config.n_routed_experts && shape.ep > 1) {
    return invalid(str("ep is ", shape.ep, ", but the model has ", config.n_routed_experts,
                       " routed experts; every rank needs one"));
  }
  const auto first_layer = [&](int stage) { return config.num_hidden_layers * stage / shape.pp; };
  const int stage = rank / shape.dp, shard = rank % shape.dp;
  return ShardPlan{
      .shape = shape,
      .stage = stage,
      .shard = shard,
      .layers = {first_layer(stage), first_layer(stage + 1)},
      .experts = experts_of(config.n_routed_experts, shape.ep == 1 ? 0 : shard, shape.ep)};
}

}  // namespace glint
