// Products on the device. Those of bf16 with weights that has_product() names are the tensor
// cores'; the others, for exactness rather than speed, are launch_exact_*.
#pragma once

#include "backends/cuda/gpu.h"
#include "backends/cuda/linear/product.h"
#include "ops/linear.h"

namespace glint::cuda {

void launch_linear(const LinearArgs& args, const Gpu& gpu);
void launch_grouped_linear(const GroupedLinearArgs& args, const Gpu& gpu);
void launch_per_head(const PerHeadArgs& args, const Gpu& gpu);

// out = silu(gate(x)) * up(x), as two products and silu_mul round it, in one kernel. Both weights
// have one format and the same blocks.
struct GateUpArgs {
  Tensor x = {};              // [T, K] bf16; rows may be strided
  Weight gate = {}, up = {};  // [N, K]
  Tensor out = {};            // [T, N] bf16, written
};
void launch_gate_up(const GateUpArgs& args, const Gpu& gpu);

// The same with rows in groups, as grouped_linear has them.
struct GroupedGateUpArgs {
  Tensor x = {}, rows = {}, offsets = {};
  WeightStack gate = {}, up = {};
  Tensor out = {};  // [R, N] bf16, written
};
void launch_grouped_gate_up(const GroupedGateUpArgs& args, const Gpu& gpu);

// linear of f32 activations with at most kMostNarrow outputs.
inline constexpr std::int64_t kMostNarrow = 1024;
bool is_narrow(const LinearArgs& args);
void launch_narrow_linear(const LinearArgs& args, const Gpu& gpu);

void launch_exact_linear(const LinearArgs& args, const Gpu& gpu);
void launch_exact_grouped_linear(const GroupedLinearArgs& args, const Gpu& gpu);
void launch_exact_per_head(const PerHeadArgs& args, const Gpu& gpu);

}  // namespace glint::cuda
