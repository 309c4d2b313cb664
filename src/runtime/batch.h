// Batch: the device arrays of one StepPlan.
#pragma once

#include <span>

#include "engine/step_plan.h"
#include "ops/kv_layout.h"
#include "tensor/arena.h"

namespace glint {

struct Batch {
  Tensor token_ids = {};   // [T] i32
  BatchView view = {};     // positions, slots, page table, cos and sin of T tokens
  Tensor logit_rows = {};  // [R] i32: slice after slice, each slice's last `logit_rows` rows
};

// `inv_freq` [rope_dim / 2] comes from rope_inv_freq. The tensors live in `arena`'s current scope.
// Aborts if a slice's pages do not cover it.
Batch build_batch(const StepPlan& plan, std::span<const float> inv_freq, Arena& arena);

}  // namespace glint
