// Backward passes of embed, gather_rows, add, silu_mul and rope (ops/backward.h has the rules).
// g is the gradient of what the op wrote. Sums are in f32, in the order of rows.
#pragma once

#include "ops/elementwise.h"
#include "ops/rope.h"

namespace glint {

//   dtable[ids[t]] += g[t]          nothing where ids[t] < 0
struct EmbedBackArgs {
  EmbedArgs op = {};
  Tensor dout = {};    // [T, D] f32, read and zeroed
  Tensor dtable = {};  // [V, D] f32, dense, added to; empty: the table is frozen
};
void check(const EmbedBackArgs& args);
OpCost cost(const EmbedBackArgs& args);

//   dx[rows[r]] += g[r]             nothing where rows[r] < 0
struct GatherRowsBackArgs {
  GatherRowsArgs op = {};
  Tensor dout = {};  // [R, D] f32, read and zeroed
  Tensor dx = {};    // [S, D] f32, added to
};
void check(const GatherRowsBackArgs& args);
OpCost cost(const GatherRowsBackArgs& args);

//   dy += dx                        dx stays: the old x has the gradient of the sum
struct AddBackArgs {
  AddArgs op = {};
  Tensor dx = {};  // [T, D] f32, read
  Tensor dy = {};  // [T, D] f32, added to
};
void check(const AddBackArgs& args);
OpCost cost(const AddBackArgs& args);

//   s = 1 / (1 + exp(-gate))
//   dup += g gate s;  dgate += g up s (1 + gate (1 - s))
//
// Where out was gate, `op.gate` is a copy made before, and `dgate` is `dout`, zeroed before it is
// added to.
struct SiluMulBackArgs {
  SiluMulArgs op = {};
  Tensor dout = {};   // [T, D] f32, read and zeroed
  Tensor dgate = {};  // [T, D] f32, added to
  Tensor dup = {};    // [T, D] f32, added to
};
void check(const SiluMulBackArgs& args);
OpCost cost(const SiluMulBackArgs& args);

//   (a, b) -> (a cos[j] + b sin[j], b cos[j] - a sin[j])       of the pairs of dx, in place
//
// the transpose of the rotation. A row whose position is -1 stays as it is.
struct RopeBackArgs {
  RopeArgs op = {};
  Tensor dx = {};  // [T, H, R] f32, updated; may be a slice of larger rows
};
void check(const RopeBackArgs& args);
OpCost cost(const RopeBackArgs& args);

inline constexpr double kElementwiseBackTolerance = 2e-6;

}  // namespace glint
