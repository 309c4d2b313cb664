// E4M3FN (OCP 8-bit float, no infinity, max 448, NaN 0x7f and 0xff) as scalar code: the
// specification of every kernel.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace glint {

constexpr float e4m3_to_float(std::uint8_t code) {
  const std::uint32_t sign = std::uint32_t{code & 0x80u} << 24;
  const std::uint32_t exponent = code >> 3 & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 120) << 23 | mantissa << 20);
}

// Nearest code, ties to even, saturating at +-448; NaN gives 0x7f with the sign.
constexpr std::uint8_t float_to_e4m3(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint8_t sign = static_cast<std::uint8_t>(bits >> 24 & 0x80);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7f;
  if (magnitude >= 0x43e00000u) return sign | 0x7e;  // >= 448
  if (magnitude < 0x3c800000u) {                     // < 2^-6: multiples of 2^-9
    // Adding 2^14 pushes the value's bits below 2^-9 out of the 24-bit mantissa, rounding to
    // nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0x1p14f;
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) & 0xff));
  }
  const std::uint32_t rounded = magnitude + 0x7ffff + (magnitude >> 20 & 1);
  const std::uint32_t code = (rounded >> 20) - (120u << 3);
  return static_cast<std::uint8_t>(sign | (code > 0x7e ? 0x7e : code));
}

// E8M0: 2^(code - 127), a scale that is an exponent alone; NaN is 0xff.
constexpr float e8m0_to_float(std::uint8_t code) {
  if (code == 0) return 0x1p-127f;
  if (code == 0xff) return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(std::uint32_t{code} << 23);
}

// From which scales are made.
inline float largest_magnitude(const float* values, std::int64_t count) {
  float amax = 0;
  for (std::int64_t i = 0; i < count; ++i) amax = std::max(amax, std::fabs(values[i]));
  return amax;
}

// The smallest power of two >= `value`, a positive normal float ("ue8m0" scales).
constexpr float pow2_ceil(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fffffu) & 0xff800000u);
}

// Scale of a 128-vector of the indexer with largest magnitude `amax`: pow2_ceil(max(amax, 1e-4) /
// 448).
constexpr float index_scale(float amax) {
  return pow2_ceil((amax > 1e-4f ? amax : 1e-4f) / 448.0f);
}

// Scale of 128 latents of the 656-byte KV record: max(amax / 448, FLT_MIN), as vLLM writes it.
constexpr float latent_scale(float amax) {
  const float scale = amax * (1.0f / 448.0f);
  return scale > 0x1p-126f ? scale : 0x1p-126f;
}

}  // namespace glint
