// ModelPartition: the part of a model that one rank holds and runs.
#pragma once

#include <string>

#include "base/result.h"
#include "model/config.h"
#include "model/expert_slots.h"
#include "model/tensor_table.h"

namespace glint {

// How many ranks of each kind. Rank r is of stage r / (tp * dp), there of replica r / tp % dp, and
// of that member r % tp.
struct MeshShape {
  int tp = 1;  // ranks of a replica that divide its heads, inner rows and vocabulary
  int cp = 1;  // replicas that share each sequence, of which each runs some rows; a divisor of dp
  int ep = 1;  // ranks that share the routed experts of a layer: 1, or all of a stage
  int pp = 1;  // stages, of whole layers each
  int last_stage_layers = 0;  // layers of the last stage; 0: stages are as even as it goes
  int dp = 1;                 // replicas: each has sequences and a cache of its own
  // Slices that the sums of divided products are cut in: tp, or 2, 4, .. times as many, which the
  // ranks then add up in the order of all slices. 0: tp.
  int reduce_slices = 0;
  // Mixtures of experts are whole on one rank, too, where other sums are cut in slices; with `ep`
  // they always are.
  bool whole_experts = false;
  // Experts move between the ranks of `ep` (EPLB), which have so many slots of each layer, all
  // together, beyond one an expert.
  bool moves_experts = false;
  int redundant_experts = 0;

  int num_ranks() const { return pp * dp * tp; }
  // Replicas, or groups of them, that have sequences of their own.
  int num_sequence_groups() const { return dp / cp; }
  int num_slices() const { return reduce_slices ? reduce_slices : tp; }
  bool cuts_experts() const { return ep == 1 && !whole_experts; }
  bool operator==(const MeshShape&) const = default;
};

// "tp 8" or "tp 2, dp 4, ep 8": what is not 1.
std::string describe(const MeshShape& shape);

// Layers begin .. end - 1.
struct LayerRange {
  int begin = 0, end = 0;

  int size() const { return end - begin; }
  bool holds(int layer) const { return layer >= begin && layer < end; }
};

// The slots first .. first + count - 1 of every MoE layer. Without moves slot e is expert e.
struct ExpertRange {
  int first = 0, count = 0;
};

// The attention heads first .. first + count - 1 of every layer.
struct HeadRange {
  int first = 0, count = 0;
};

struct ModelPartition {
  MeshShape shape = {};
  int stage = 0, replica = 0, tp_rank = 0;
  LayerRange layers = {};
  ExpertRange experts = {};
  HeadRange heads = {};
  int num_expert_slots = 0;  // of a layer, on all ranks together
  // By layer, where experts have moved: what the slots hold; else empty, and then they hold what
  // first_slots() says.
  std::vector<ExpertSlots> moved = {};

  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage + 1 == shape.pp; }
  // Whether products are divided, or their sums cut in slices: it runs on DividedOps.
  bool is_divided() const { return shape.num_slices() > 1; }
  // Slices that this rank adds up itself.
  int own_slices() const { return shape.num_slices() / shape.tp; }
  // Whether it holds all of `tensor`, or of its experts, if it has any of it.
  bool is_whole(const ModelTensor& tensor) const;
  // The experts in the slots of a layer.
  ExpertSlots slots_of(int layer, int num_experts) const;
  // Whether it holds a part of `tensor`, of a model `with_mtp` or without its MTP layer. That is on
  // the last stage, with the embedding, which is there too where it is also the head.
  bool holds(const ModelTensor& tensor, const ModelConfig& config, bool with_mtp) const;
};

// The experts of member `rank` of a group of `size`: any size, as even as it goes.
ExpertRange experts_of(int num_experts, int rank, int size);

// Fails with one sentence if no model can be divided so.
Status check_shape(const MeshShape& shape);

// Fails with one sentence if the model cannot be divided so.
Result<ModelPartition> plan_partition(const ModelConfig& config, const MeshShape& shape, int rank);

}  // namespace glint
