// A product of bf16 rows with weights of any format, as its kernels see it.
#pragma once

#include "backends/cuda/elements.h"
#include "backends/cuda/gpu.h"
#include "backends/cuda/linear/choose_kernel.h"
#include "backends/cuda/linear/weight_view.h"

namespace glint::cuda {

// How a sum becomes an output.
enum class Epilogue {
  kBF16,
  kF32,
  kAdd,  // to what an f32 output holds
  // Two weights, gate and up: out = bf16(silu(bf16(gate sum)) * bf16(up sum)), the roundings of two
  // products followed by silu_mul.
  kSiluMul,
};

// Rows of x and out, which are one matrix's, or several matrices': by groups of rows where there
// are offsets, else with every matrix for all rows.
struct ProductArgs {
  const bf16* x = nullptr;
  std::int64_t x_stride = 0, x_step = 0;  // of rows, and from one matrix to the next
  void* out = nullptr;
  std::int64_t out_stride = 0, out_step = 0;
  std::int64_t m = 0, n = 0;              // rows, and those of a matrix
  int k = 0;                              // its columns
  StackView weights = {}, up = {};        // kSiluMul: weights is the gate
  const std::int32_t* offsets = nullptr;  // [groups + 1]; null: no groups
  const std::int32_t* sources = nullptr;  // with offsets: the rows of x; null: those of out
  // The kernel before this one has read the offsets: they are there when this one starts.
  bool knows_groups = false;
  int matrices = 1;  // or groups
};

// Whether product kernels compute those of such weights: fp8 blocks must not end within a span.
inline bool has_product(WeightFormat format, std::int64_t k, int block_cols) {
  if (k > kLongest) return false;
  return format == WeightFormat::kBF16 || format == WeightFormat::kNvfp4 ||
         (format == WeightFormat::kFp8Block && block_cols >= kStep / 2);
}

// Defined for each format by one file in inst/. No size is 0.
template <WeightFormat kFormat>
void launch_product(const ProductArgs& args, Epilogue epilogue, const Gpu& gpu);

}  // namespace glint::cuda
