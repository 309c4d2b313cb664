// Helpers of the reference's ops: tensors read as f32, sums in f64, checked indices.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace glint::reference {

// All elements of `x` (f32 or bf16, strided or not) in row-major order.
std::vector<float> floats_of(const Tensor& x);

// sum_i a[i] * b[i]: eight interleaved partial sums, an order that depends on `n` only.
double dot(const float* a, const float* b, std::int64_t n);

// Element `i` of an index tensor, which must lie in [0, limit).
std::int64_t index_at(const Tensor& indices, std::int64_t i, std::int64_t limit, const char* what);
// index_at(), or -1, which stands for padding.
std::int64_t index_or_padding(const Tensor& indices, std::int64_t i, std::int64_t limit,
                              const char* what);

}  // namespace glint::reference
