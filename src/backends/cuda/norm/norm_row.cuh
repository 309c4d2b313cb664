// A row of rms_norm by a thread block. Which elements a thread sums, and the tree over threads,
// depend on the row's length alone.
#pragma once

#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/reduce.cuh"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {

inline constexpr int kNormBlock = 256;

// x += delta, where there is one, and write(c, v) with elements [c, c + kVec) of rms_norm(x), for
// each of a thread's c. Waits for inputs before it reads x and delta, and lets the next kernel
// start. kWhole: with_whole().
//
// All loads of a row of up to 6,144 elements are under way at once, and what they bring stays in
// registers.
template <bool kWhole, class X, class Delta, class W, class Write>
__device__ void norm_row(X* x, const Delta* delta, const W* weight, std::int64_t columns, float eps,
                         Write&& write) {
  constexpr int kHeld = 3;
  const std::int64_t first = threadIdx.x * kVec, step = kNormBlock * kVec;
  const auto pack_of = [&](const auto* from, std::int64_t c) {
    return load_pack<kWhole>(from + c, columns - c);
  };
  float squares = 0;
  const auto add = [&](std::int64_t c, float(&v)[kVec], const Pack<X>& old, const Pack<Delta>& d) {
    unpack(v, old);
    if (delta) {
#pragma unroll
      for (int i = 0; i < kVec; ++i) v[i] = as_float(rounded<X>(v[i] + as_float(d.v[i])));
      store<kWhole>(x + c, v, columns - c);
    }
#pragma unroll
    for (int i = 0; i < kVec; ++i) squares += v[i] * v[i];
  };
  Pack<W> weights[kHeld];
  Pack<X> olds[kHeld];
  Pack<Delta> deltas[kHeld];
  float held[kHeld][kVec];
  const auto for_held = [&](auto&& take) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      if (const std::int64_t c = first + j * step; c < columns) take(j, c);
    }
  };
  for_held([&](int j, std::int64_t c) { weights[j] = pack_of(weight, c); });
  wait_for_inputs();
  let_next_start();  // not before: it would take the room of what runs beside the kernel before
  for_held([&](int j, std::int64_t c) {
    olds[j] = pack_of(x, c);
    if (delta) deltas[j] = pack_of(delta, c);
  });
  for_held([&](int j, std::int64_t c) { add(c, held[j], olds[j], deltas[j]); });
  for (std::int64_t c = first + kHeld * step; c < columns; c += step) {
    float v[kVec];
    add(c, v, pack_of(x, c), delta ? pack_of(delta, c) : Pack<Delta>{});
  }
  const float scale =
      1.0f / sqrtf(block_sum<kNormBlock>(squares) / static_cast<float>(columns) + eps);
  const auto finish = [&](std::int64_t c, float(&v)[kVec], const Pack<W>& w) {
#pragma unroll
    for (int i = 0; i < kVec; ++i) v[i] = v[i] * scale * as_float(w.v[i]);
    write(c, v);
  };
  for_held([&](int j, std::int64_t c) { finish(c, held[j], weights[j]); });
  for (std::int64_t c = first + kHeld * step; c < columns; c += step) {
    float v[kVec];
    unpack(v, pack_of(x, c));
    finish(c, v, pack_of(weight, c));
  }
}

}  // namespace glint::cuda
