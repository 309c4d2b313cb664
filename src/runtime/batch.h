// Batch: the device arrays of one StepPlan.
#pragma once

#include <vector>

#include "engine/step_plan.h"
#include "ops/kv_layout.h"
#include "tensor/arena.h"

namespace glint {

struct Batch {
  Tensor token_ids = {};   // [T] i32
  BatchView view = {};     // positions, slots and page table of T tokens
  Tensor logit_rows = {};  // [R] i32: slice after slice, each slice's last `logit_rows` rows
};

// The tensors live in `arena`'s current scope; `rope_table` [positions, rope_dim] is the model's.
// Aborts if a slice's pages or the table do not cover it.
Batch build_batch(const StepPlan& plan, const Tensor& rope_table, Arena& arena);

}  // namespace glint
