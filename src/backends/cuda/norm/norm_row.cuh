// A row of rms_norm by a thread block. Which elements a thread sums, and the tree over threads,
// depend on the row's length alone.
#pragma once

#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/reduce.cuh"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {

inline constexpr int kNormBlock = 256;

// x += delta, where there is one, and write(c, v) with elements [c, c + kVec) of rms_norm(x), for
// each of a thread's c. Waits for inputs before it reads x and delta.
//
// All loads of a row of up to 6,144 elements are under way at once, and what they bring stays in
// registers.
template <class X, class Delta, class W, class Write>
__device__ void norm_row(X* x, const Delta* delta, const W* weight, std::int64_t columns, float eps,
                         Write&& write) {
  constexpr int kHeld = 3;
  const std::int64_t first = threadIdx.x * kVec, step = kNormBlock * kVec;
  float squares = 0;
  const auto add = [&](std::int64_t c, float(&v)[kVec], const float(&d)[kVec]) {
    if (delta) {
#pragma unroll
      for (int i = 0; i < kVec; ++i) v[i] = as_float(rounded<X>(v[i] + d[i]));
      store(x + c, v, columns - c);
    }
#pragma unroll
    for (int i = 0; i < kVec; ++i) squares += v[i] * v[i];
  };
  float held[kHeld][kVec], deltas[kHeld][kVec], weights[kHeld][kVec];
  const auto for_held = [&](auto&& take) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      if (const std::int64_t c = first + j * step; c < columns) take(j, c);
    }
  };
  for_held([&](int j, std::int64_t c) { load(weights[j], weight + c, columns - c); });
  wait_for_inputs();
  for_held([&](int j, std::int64_t c) {
    load(held[j], x + c, columns - c);
    if (delta) load(deltas[j], delta + c, columns - c);
  });
  for_held([&](int j, std::int64_t c) { add(c, held[j], deltas[j]); });
  for (std::int64_t c = first + kHeld * step; c < columns; c += step) {
    float v[kVec], d[kVec];
    load(v, x + c, columns - c);
    if (delta) load(d, delta + c, columns - c);
    add(c, v, d);
  }
  const float scale =
      1.0f / sqrtf(block_sum<kNormBlock>(squares) / static_cast<float>(columns) + eps);
  const auto finish = [&](std::int64_t c, float(&v)[kVec], const float(&w)[kVec]) {
#pragma unroll
    for (int i = 0; i < kVec; ++i) v[i] = v[i] * scale * w[i];
    write(c, v);
  };
  for_held([&](int j, std::int64_t c) { finish(c, held[j], weights[j]); });
  for (std::int64_t c = first + kHeld * step; c < columns; c += step) {
    float v[kVec], w[kVec];
    load(v, x + c, columns - c);
    load(w, weight + c, columns - c);
    finish(c, v, w);
  }
}

}  // namespace glint::cuda
