// embed, gather_rows, add, silu_mul: what moves rows or works on single elements.
#pragma once

#include "ops/cost.h"
#include "tensor/tensor.h"

namespace glint {

//   out[t] = table[ids[t] - first]      or zeros where ids[t] < 0 (padding, and the MTP layer's
//                                       position 0), or has no row in a table that is a part
struct EmbedArgs {
  Tensor ids = {};         // [T] i32, each < V if the table is whole
  Tensor table = {};       // [V, D] f32 or bf16
  Tensor out = {};         // [T, D] f32 or bf16, written
  bool is_part = false;    // the table is of a part of the vocabulary
  std::int32_t first = 0;  // the token of its first row
};
void check(const EmbedArgs& args);
OpCost cost(const EmbedArgs& args);

//   out[r] = x[rows[r]]         or zeros where rows[r] < 0
struct GatherRowsArgs {
  Tensor x = {};     // [S, D] f32 or bf16
  Tensor rows = {};  // [R] i32, each < S
  Tensor out = {};   // [R, D] dtype of x, written
};
void check(const GatherRowsArgs& args);
OpCost cost(const GatherRowsArgs& args);

//   x += y      in f32, with one cast
struct AddArgs {
  Tensor x = {};  // [T, D] f32 or bf16, updated
  Tensor y = {};  // [T, D] f32 or bf16
};
void check(const AddArgs& args);
OpCost cost(const AddArgs& args);

//   out = silu(gate) * up,  silu(v) = v / (1 + exp(-v))
//
// in f32, with one cast. `out` may be `gate`. Source: Shazeer, GLU variants (arXiv 2002.05202).
struct SiluMulArgs {
  Tensor gate = {};  // [T, D] f32 or bf16
  Tensor up = {};    // [T, D] dtype of gate
  Tensor out = {};   // [T, D] dtype of gate, written
};
void check(const SiluMulArgs& args);
OpCost cost(const SiluMulArgs& args);

inline constexpr OpTolerance kElementwiseTolerance = {.f32 = 2e-6, .bf16 = 5e-4};

}  // namespace glint
