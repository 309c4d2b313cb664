// ShardPlan: the part of a model that one rank holds and runs.
#pragma once

#include <string>

#include "base/result.h"
#include "model/config.h"
#include "model/tensor_table.h"

namespace glint {

// How many ranks of each kind. Rank r is shard r % dp of stage r / dp.
struct MeshShape {
  int ep = 1;  // ranks that share the routed experts of a layer: 1, or all shards of a stage
  int pp = 1;  // stages, of whole layers each
  int dp = 1;  // shards: each has sequences and a cache of its own, and attention's weights whole

  int num_ranks() const { return pp * dp; }
  bool operator==(const MeshShape&) const = default;
};

// "dp 2, ep 2, pp 1"
std::string describe(const MeshShape& shape);

// Layers begin .. end - 1.
struct LayerRange {
  int begin = 0, end = 0;

  int size() const { return end - begin; }
  bool holds(int layer) const { return layer >= begin && layer < end; }
};

// The routed experts first .. first + count - 1 of every MoE layer.
struct ExpertRange {
  int first = 0, count = 0;
};

struct ShardPlan {
  MeshShape shape = {};
  int stage = 0, shard = 0;
  LayerRange layers = {};
  ExpertRange experts = {};

  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage + 1 == shape.pp; }
  // Whether it holds a part of `tensor`. An MTP layer is on the last stage, with the embedding.
  bool holds(const ModelTensor& tensor, const ModelConfig& config) const;
};

// The experts of member `rank` of a group of `size`: any size, as even as it goes.
ExpertRange experts_of(int num_experts, int rank, int size);

// Fails with one sentence if no model can be divided so.
Status check_shape(const MeshShape& shape);

// Fails with one sentence if the model cannot be divided so.
Result<ShardPlan> plan_shard(const ModelConfig& config, const MeshShape& shape, int rank);

}  // namespace glint
