// Products on the device. Those of bf16 with weights that has_product() names are the tensor
// cores'; the others, for exactness rather than speed, are launch_exact_*.
#pragma once

#include <array>

#include "backends/cuda/gpu.h"
#include "backends/cuda/linear/product.h"
#include "ops/linear.h"

namespace glint::cuda {

void launch_linear(const LinearArgs& args, const Gpu& gpu);
void launch_grouped_linear(const GroupedLinearArgs& args, const Gpu& gpu);
void launch_per_head(const PerHeadArgs& args, const Gpu& gpu);

// Whether the tensor cores' kernels compute the product of such activations with `weight`, one or
// a stack.
template <class Weights>
bool is_product(DType x, const Weights& weight) {
  return x == DType::kBF16 && has_product(weight.format, weight.cols, weight.block_cols);
}

// Whether one of them computes gate, up and what joins them.
template <class Weights>
bool is_gate_up(DType x, const Weights& gate, const Weights& up) {
  return is_product(x, gate) && gate.format == up.format && gate.block_rows == up.block_rows &&
         gate.block_cols == up.block_cols;
}

// out = silu(gate(x)) * up(x), as two products and silu_mul round it, in one kernel. Both weights
// have one format and the same blocks.
struct GateUpArgs {
  Tensor x = {};              // [T, K] bf16; rows may be strided
  Weight gate = {}, up = {};  // [N, K]
  Tensor out = {};            // [T, N] bf16, written
};
void launch_gate_up(const GateUpArgs& args, const Gpu& gpu);

// launch_gate_up() with rows in groups, as grouped_linear has them.
struct GroupedGateUpArgs {
  Tensor x = {}, rows = {}, offsets = {};
  WeightStack gate = {}, up = {};
  Tensor out = {};  // [R, N] bf16, written
};
void launch_grouped_gate_up(const GroupedGateUpArgs& args, const Gpu& gpu);

// A grouped_linear right behind a grouped gate and up, with the same offsets: it loads weights
// while that still runs.
struct GroupedDownArgs {
  GroupedLinearArgs product = {};
};
void launch_grouped_down(const GroupedDownArgs& args, const Gpu& gpu);

// Both products, as ops.
inline std::array<LinearArgs, 2> products_of(const GateUpArgs& args) {
  const auto with = [&](const Weight& weight) -> LinearArgs {
    return {.x = args.x, .weight = weight, .out = args.out};
  };
  return {with(args.gate), with(args.up)};
}
inline std::array<GroupedLinearArgs, 2> products_of(const GroupedGateUpArgs& args) {
  const auto with = [&](const WeightStack& weights) -> GroupedLinearArgs {
    return {.x = args.x,
            .rows = args.rows,
            .offsets = args.offsets,
            .weights = weights,
            .out = args.out};
  };
  return {with(args.gate), with(args.up)};
}

// linear of f32 activations with at most kMostNarrow outputs.
inline constexpr std::int64_t kMostNarrow = 1024;
bool is_narrow(const LinearArgs& args);
void launch_narrow_linear(const LinearArgs& args, const Gpu& gpu);

void launch_exact_linear(const LinearArgs& args, const Gpu& gpu);
void launch_exact_grouped_linear(const GroupedLinearArgs& args, const Gpu& gpu);
void launch_exact_per_head(const PerHeadArgs& args, const Gpu& gpu);

}  // namespace glint::cuda
