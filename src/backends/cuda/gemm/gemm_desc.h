// A matrix product as kernels are chosen by it: out[m, n] = x[m, k] * weight[n, k]^T, all bf16,
// sums in f32.
#pragma once

#include <cstdint>

namespace glint::cuda {

// How a sum becomes an output.
enum class Epilogue {
  kBF16,
  kF32,
  // Two weights, gate and up: out = bf16(silu(bf16(gate sum)) * bf16(up sum)), the roundings of two
  // products followed by silu_mul.
  kSiluMul,
};

struct GemmDesc {
  std::int64_t m = 0, n = 0, k = 0;
  Epilogue epilogue = Epilogue::kBF16;
  // Every row of every operand starts at a multiple of 16 bytes, and n and k are multiples of 8.
  bool aligned = false;
};

// Rows of x by rows of weight that one thread block multiplies.
enum class GemmTile { k16x32, k64x64, k128x128 };

struct GemmConfig {
  GemmTile tile = GemmTile::k64x64;
  bool aligned = false;

  bool operator==(const GemmConfig&) const = default;
};

}  // namespace glint::cuda
