// Eight neighbouring elements as floats: what one thread of a memory-bound kernel handles at a
// time.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backends/cuda/elements.h"

namespace glint::cuda {

inline constexpr int kVec = 8;

__device__ inline float as_float(float value) { return value; }
__device__ inline float as_float(bf16 value) { return __bfloat162float(value); }

template <class T>
__device__ T rounded(float value);
template <>
__device__ inline float rounded(float value) {
  return value;
}
template <>
__device__ inline bf16 rounded(float value) {
  return __float2bfloat16_rn(value);
}

template <class T>
struct alignas(16) Pack {
  T v[kVec];
};

__device__ inline bool is_aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

// run(whole), a constant: whether rows of `columns` elements at these addresses are whole vectors,
// at multiples of 16 bytes. Code that need not look is short, and has all of its loads under way
// together.
template <class Run, class... T>
__device__ void with_whole(Run&& run, std::int64_t columns, const T*... rows) {
  columns % kVec == 0 && (is_aligned(rows) && ...) ? run(std::true_type{}) : run(std::false_type{});
}

// p[0 .. min(kVec, left)), then zeros.
template <bool kWhole, class T>
__device__ inline Pack<T> load_pack(const T* p, std::int64_t left) {
  Pack<T> pack;
  if (kWhole || (left >= kVec && is_aligned(p))) {
    pack = *reinterpret_cast<const Pack<T>*>(p);
  } else {
#pragma unroll
    for (int i = 0; i < kVec; ++i) pack.v[i] = i < left ? p[i] : rounded<T>(0.0f);
  }
  return pack;
}
template <class T>
__device__ inline void unpack(float (&v)[kVec], const Pack<T>& pack) {
#pragma unroll
  for (int i = 0; i < kVec; ++i) v[i] = as_float(pack.v[i]);
}
template <class T>
__device__ inline void load(float (&v)[kVec], const T* p, std::int64_t left) {
  unpack(v, load_pack<false>(p, left));
}

// p[0 .. min(kVec, left)) = v, rounded.
template <bool kWhole = false, class T>
__device__ inline void store(T* p, const float (&v)[kVec], std::int64_t left) {
  if (kWhole || (left >= kVec && is_aligned(p))) {
    Pack<T> pack;
#pragma unroll
    for (int i = 0; i < kVec; ++i) pack.v[i] = rounded<T>(v[i]);
    *reinterpret_cast<Pack<T>*>(p) = pack;
  } else {
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      if (i < left) p[i] = rounded<T>(v[i]);
    }
  }
}

// One for the op and for the epilogue that fuses it. They must agree to the bit, so the compiler
// may not contract these into FMAs as the code around them suggests.
__device__ inline float silu_mul(float gate, float up) {
  return __fmul_rn(__fdiv_rn(gate, __fadd_rn(1.0f, expf(-gate))), up);
}

}  // namespace glint::cuda
