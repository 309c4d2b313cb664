// Batch: the device arrays of one StepPlan.
#pragma once

#include <vector>

#include "engine/step_plan.h"
#include "ops/kv_layout.h"
#include "tensor/arena.h"

namespace glint {

struct Batch {
  Tensor token_ids = {};   // [T] i32
  BatchView view = {};     // positions, slots, page table, cos and sin of T tokens
  Tensor logit_rows = {};  // [R] i32: slice after slice, each slice's last `logit_rows` rows
};

// Of the rotary embedding: the frequencies of rope_inv_freq, and what yarn multiplies cos and sin
// by.
struct Rotation {
  std::vector<float> inv_freq = {};  // [rope_dim / 2]
  float attention_factor = 1;
};

// The tensors live in `arena`'s current scope. Aborts if a slice's pages do not cover it.
Batch build_batch(const StepPlan& plan, const Rotation& rotation, Arena& arena);

}  // namespace glint
