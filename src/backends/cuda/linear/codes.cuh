// The weights of a lane: 32 of each step of kStep columns, of one row, from memory to pairs of bf16
// as the tensor cores take them. All kernels of products use them, so that their sums agree.
//
// An instruction m16n8k16 adds up sixteen products. Which columns these are is free, as long as
// both operands agree: here four neighbours of each of the four lanes that share a row. So a lane
// needs columns in runs of eight, "chunks", of which a step has four.
#pragma once

#include "backends/cuda/arch.cuh"
#include "backends/cuda/linear/product.h"
#include "backends/cuda/vec.cuh"
#include "tensor/fp8.h"

namespace glint::cuda {

inline constexpr int kChunks = 4;

__device__ inline std::uint32_t times(std::uint32_t pair, std::uint32_t factors) {
  std::uint32_t product;
  if constexpr (kArch.capability >= 90) {
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(pair), "r"(factors));
  } else {  // there is no such instruction, and adding -0 changes nothing
    constexpr std::uint32_t kMinusZeros = 0x80008000;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(product)
        : "r"(pair), "r"(factors), "r"(kMinusZeros));
  }
  return product;
}

// Byte kLow of `low` and kHigh of `high` as the lower bytes of halves, whose upper bytes are their
// signs, eight times: one shift of both can move the rest of a code away from its sign.
template <int kLow, int kHigh>
__device__ std::uint32_t signed_pair(std::uint32_t low, std::uint32_t high) {
  constexpr int kSign = 8, kOfHigh = 4 + kHigh;  // in a selector of bytes
  constexpr int kBytes = kLow | (kLow | kSign) << 4 | kOfHigh << 8 | (kOfHigh | kSign) << 12;
  std::uint32_t pair;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(pair) : "r"(low), "r"(high), "n"(kBytes));
  return pair;
}

// 16 bytes that no other thread block reads soon: past L1, which x should have for itself.
__device__ inline uint4 load_once(const void* p) {
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(p));
  return v;
}

// Bytes [at, at + 16) of a row of `size` bytes, zeros past its end.
template <bool kAligned>
__device__ uint4 load_row(const std::byte* row, int at, int size) {
  if constexpr (kAligned) return at < size ? load_once(row + at) : uint4{};
  union {
    std::byte bytes[16];
    uint4 v;
  } u = {};
  for (int i = 0; i < 16; ++i) {
    if (at + i < size) u.bytes[i] = row[at + i];
  }
  return u.v;
}

// Codes<F>: the codes of a lane.
//   column(t, c): where in a step chunk c of lane t of the four begins
//   unit(u, t): which 16 bytes of a row's step its u-th vector is
//   pairs(c, p): chunk c as bf16
//   kBytes: of a row of a step
//   kAhead: steps whose codes take about half of a lane's registers
template <WeightFormat kFormat>
struct Codes;

template <>
struct Codes<WeightFormat::kBF16> {
  static constexpr int kVectors = 4, kBytes = 2 * kStep, kAhead = 2;
  uint4 v[kVectors];

  __device__ static int column(int t, int c) { return 32 * c + 8 * t; }
  __device__ static int unit(int u, int t) { return 4 * u + t; }
  __host__ __device__ static int row_bytes(int k) { return 2 * k; }
  __device__ void pairs(int c, std::uint32_t (&p)[4]) const {
    p[0] = v[c].x, p[1] = v[c].y, p[2] = v[c].z, p[3] = v[c].w;
  }
};

template <>
struct Codes<WeightFormat::kFp8Block> {
  static constexpr int kVectors = 2, kBytes = kStep, kAhead = 3;
  uint4 v[kVectors];

  __device__ static int column(int t, int c) { return 64 * (c / 2) + 16 * t + 8 * (c % 2); }
  __device__ static int unit(int u, int t) { return 4 * u + t; }
  __host__ __device__ static int row_bytes(int k) { return k; }
  // Codes kPair * 2 and the next of a word. The shift moves an exponent to where bf16 has its own,
  // whose bias comes by a factor, which is exact, for subnormal codes too.
  template <int kPair>
  __device__ static std::uint32_t decoded(std::uint32_t word) {
    constexpr std::uint32_t kTwoTo120 = 0x7b807b80;
    const std::uint32_t pair = signed_pair<kPair * 2, kPair * 2 + 1>(word, word);
    return times(pair << 4 & 0x87f087f0u, kTwoTo120);
  }
  __device__ void pairs(int c, std::uint32_t (&p)[4]) const {
    const uint4& w = v[c / 2];
    const std::uint32_t low = c % 2 ? w.z : w.x, high = c % 2 ? w.w : w.y;
    p[0] = decoded<0>(low), p[1] = decoded<1>(low);
    p[2] = decoded<0>(high), p[3] = decoded<1>(high);
  }
};

template <>
struct Codes<WeightFormat::kNvfp4> {
  static constexpr int kVectors = 1, kBytes = kStep / 2, kAhead = 6;
  uint4 v[kVectors];
  std::uint32_t scales;  // of both groups of 16, as bf16, times 2^118

  __device__ static int column(int t, int c) { return 32 * t + 8 * c; }
  __device__ static int unit(int, int t) { return t; }
  __host__ __device__ static int row_bytes(int k) { return k / 2; }
  // `row`: the scales of the weight's row; of the two groups from column k on.
  template <bool kAligned>
  __device__ static std::uint32_t load_scales(const std::byte* row, int column, int k) {
    std::uint32_t both = 0;  // codes
    if constexpr (kAligned) {
      both = column < k ? *reinterpret_cast<const std::uint16_t*>(row + column / kNvfp4Group) : 0;
    } else {
      const auto code = [&](int at) {
        return at < k ? static_cast<std::uint32_t>(row[at / kNvfp4Group]) : 0u;
      };
      both = code(column) | code(column + kNvfp4Group) << 8;
    }
    constexpr std::uint32_t kTwoTo118 = 0x7a807a80;
    return times(Codes<WeightFormat::kFp8Block>::decoded<0>(both), kTwoTo118);
  }
  // Values are code * scale / 2^8, exactly: e2m1's exponents where bf16 has its own are 2^126 too
  // small, and a scale times that would be too large. The kernel's end makes it up.
  static constexpr float kFactor = 256;
  __device__ void pairs(int c, std::uint32_t (&p)[4]) const {
    const std::uint32_t w = c == 0 ? v[0].x : c == 1 ? v[0].y : c == 2 ? v[0].z : v[0].w;
    const std::uint32_t scale = __byte_perm(scales, 0, c < 2 ? 0x1010 : 0x3232);
    const std::uint32_t even = w << 4;  // codes in the upper halves of bytes, as the odd ones of w
    p[0] = decoded<0>(even, w, scale), p[1] = decoded<1>(even, w, scale);
    p[2] = decoded<2>(even, w, scale), p[3] = decoded<3>(even, w, scale);
  }
  template <int kPair>
  __device__ static std::uint32_t decoded(std::uint32_t even, std::uint32_t odd,
                                          std::uint32_t scale) {
    return times(signed_pair<kPair, kPair>(even, odd) << 2 & 0x81c081c0u, scale);
  }
};

// sums[16 x 8] += a[16 x 16] * b[8 x 16]^T, of bf16.
__device__ inline void multiply_16(float (&sums)[4], std::uint32_t a0, std::uint32_t a1,
                                   std::uint32_t a2, std::uint32_t a3, std::uint32_t b0,
                                   std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ inline void multiply_16(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                   std::uint32_t b1) {
  multiply_16(sums, a[0], a[1], a[2], a[3], b0, b1);
}

// sums[16 rows of the weight x 8 rows of x] += what one pair of chunks, of 8 columns a lane, adds.
__device__ inline void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[4], const uint4& x) {
  multiply_16(sums, a[0], b[0], a[1], b[1], x.x, x.y);
  multiply_16(sums, a[2], b[2], a[3], b[3], x.z, x.w);
}

// A span is half a step, two chunks: one chain of instructions from zero, so that the low bits
// which the tensor core cuts off stay few. Then it is added to its slice's sum, fp8 spans times
// their block's scale: that of the upper or the lower eight of 16 rows.
template <WeightFormat kFormat>
__device__ void add_span(float (&slice)[4], const float (&span)[4], float upper, float lower) {
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if constexpr (kFormat == WeightFormat::kFp8Block) {
      slice[e] = fmaf(span[e], e < 2 ? upper : lower, slice[e]);
    } else {
      slice[e] += span[e];
    }
  }
}

// The scales of a step's two spans in the fp8 block of row `n`. Sides of blocks are powers of two.
struct SpanScales {
  float of[2];
};
template <WeightFormat kFormat>
__device__ SpanScales load_span_scales(const WeightView& w, std::int64_t n, int step, int k) {
  if constexpr (kFormat == WeightFormat::kFp8Block) {
    const int row_shift = 31 - __clz(w.block_rows), shift = w.block_cols == kStep ? 7 : 6;
    const int blocks = (k + w.block_cols - 1) >> shift;
    const float* const row =
        reinterpret_cast<const float*>(w.scale) + (static_cast<int>(n) >> row_shift) * blocks;
    const int first = step * kStep, second = min(first + kStep / 2, k - 1);
    return {row[first >> shift], row[second >> shift]};
  } else {
    return {1, 1};
  }
}

// The factor of a whole sum, at its end.
template <WeightFormat kFormat>
__device__ float factor_of(const WeightView& w) {
  if constexpr (kFormat == WeightFormat::kNvfp4) {
    return Codes<kFormat>::kFactor * (w.global_scale ? *w.global_scale : 1.0f);
  }
  return 1;
}

}  // namespace glint::cuda
