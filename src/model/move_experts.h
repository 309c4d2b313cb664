// Moves the routed experts of a layer between the ranks that share them.
#pragma once

#include "comm/comm.h"
#include "model/expert_slots.h"
#include "model/model_partition.h"
#include "ops/blocks/weights.h"
#include "tensor/arena.h"

namespace glint {

// All slots of a layer, before and after.
struct ExpertMove {
  const ExpertSlots& from;
  const ExpertSlots& to;
};

// Fails where experts cannot be moved: they have no memory of their own, or several formats.
Status check_movable(const MoeWeights& weights);

// Collective over `ep`, whose member this rank is: afterwards its slots, which `weights` are, have
// the experts of `move.to`. Some columns of all slots move at a time, through `scratch`, so that
// moving takes little memory beside the weights.
void move_experts(const ExpertMove& move, const MoeWeights& weights, Comm& ep, Arena& scratch);

}  // namespace glint
