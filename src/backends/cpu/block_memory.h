// Temporaries of the CPU's blocks: taken in one place by the blocks and by their plan.
#pragma once

#include "backends/cpu/products.h"
#include "ops/compose.h"

namespace glint::cpu {

// Gate, up and silu are one product where both have tiles of one kind.
inline bool fuses(const Products& products, DType dtype, const Weight& gate, const Weight& up) {
  return products.in_bf16(dtype, gate.format) == products.in_bf16(dtype, up.format);
}

inline bool fuses(const Products& products, DType dtype, const MoeWeights& w) {
  const FfnWeights& s = w.shared_experts;
  bool all_fuse = !s || fuses(products, dtype, s.gate_proj, s.up_proj);
  const bool of_one_format = w.gate_proj.each.empty() && w.up_proj.each.empty();
  for (std::int64_t e = 0; e < (of_one_format ? 1 : w.gate_proj.count); ++e) {
    all_fuse &= fuses(products, dtype, w.gate_proj[e], w.up_proj[e]);
  }
  return all_fuse;
}

inline Tensor take_ffn_inner(const DenseFfnArgs& args, Arena& scratch) {
  return scratch.take_padded(args.delta.dtype, {args.x.dim(0), args.weights.gate_proj.rows});
}

struct MoeMemory {
  Tensor inner, answers;        // [T k, ..]
  Tensor shared_inner, shared;  // [T, ..], or empty
};
inline MoeMemory take_moe(const MoeArgs& args, Arena& scratch) {
  const DType dtype = args.delta.dtype;
  const std::int64_t T = args.x.dim(0), rows = T * args.num_experts_per_tok;
  const FfnWeights& s = args.weights.shared_experts;
  MoeMemory m;
  m.inner = scratch.take_padded(dtype, {rows, args.weights.gate_proj.rows});
  m.answers = scratch.take(args.answer().dtype, {rows, args.x.dim(1)});
  if (s) m.shared_inner = scratch.take_padded(dtype, {T, s.gate_proj.rows});
  if (s) m.shared = scratch.take(args.answer().dtype, {T, args.x.dim(1)});
  return m;
}

}  // namespace glint::cpu
