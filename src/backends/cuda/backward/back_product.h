// The products of backward passes, with matrices as they lie in memory:
//
//   by input:   dx[m, n] += sum_k g[m, k] w[k, n]        k: outputs, n: inputs, m: tokens
//   by weight:  dW[m, n] += sum_k g[k, m] x[k, n]        k: tokens, n: inputs, m: outputs
#pragma once

#include <cstdint>

#include "backends/cuda/gpu.h"

namespace glint::cuda {

enum class BackProductOf { kInput, kWeight };

// Matrix i of each lies i steps behind the first; strides, of rows, and steps count elements. With
// offsets, rows of g are in groups: group i is multiplied with matrix i of b by input, and makes
// matrix i of out by weight.
struct BackProduct {
  const float* g;
  std::int64_t g_stride, g_step;
  const void* b;  // w or x: f32 or bf16
  bool b_is_bf16;
  std::int64_t b_stride, b_step;
  const std::int32_t* b_rows;  // by weight: row k is b's row b_rows[k]; null: k itself
  float* out;
  std::int64_t out_stride, out_step;
  bool adds;  // to what is in `out`
  std::int64_t m, n, k;
  int matrices;
  const std::int32_t* offsets;  // [matrices + 1]; null: no groups
};

// In f32, with sums of 32 each from zero.
void launch_back_product_f32(BackProductOf of, const BackProduct& p, const Gpu& gpu);
// On the tensor cores, of b in bf16 and g rounded to it.
void launch_back_product_bf16(BackProductOf of, const BackProduct& p, const Gpu& gpu);

}  // namespace glint::cuda
