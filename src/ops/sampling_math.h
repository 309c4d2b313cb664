// The arithmetic of sample (ops/sampling.h): f32 and integers, operation by operation, so that
// every backend gets the same bits. Sources that include it are compiled without fused
// multiply-adds.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "ops/sequences.h"

#ifdef __CUDACC__
#define GLINT_BOTH_SIDES __host__ __device__
#else
#define GLINT_BOTH_SIDES
#endif

namespace glint {

GLINT_BOTH_SIDES inline std::uint32_t bits_of(float x) {
  return __builtin_bit_cast(std::uint32_t, x);
}
GLINT_BOTH_SIDES inline float float_of(std::uint32_t x) { return __builtin_bit_cast(float, x); }

// Larger keys are larger floats; -0 and 0 have one key. Not for NaN.
GLINT_BOTH_SIDES inline std::uint32_t key_of(float x) {
  const std::uint32_t bits = bits_of(x + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// e^x for x <= 0 in f32, within 2e-7 of it; 0 where x < -87. By 2^n * e^r with r in
// [-ln 2 / 2, ln 2 / 2] and the polynomial of Cephes' expf. Adding 1.5 * 2^23 rounds to an integer,
// which is then in the low bits.
GLINT_BOTH_SIDES inline float exp_weight(float x) {
  constexpr float kMagic = 12582912.0f;
  const float t = x * 1.44269504f + kMagic;
  const float n = t - kMagic;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const std::uint32_t all = x >= -87.0f ? ~0u : 0u;  // a mask: compilers make vector code of it
  return float_of((bits_of(p) + (bits_of(t) << 23)) & all);
}

// 64 bits as two halves, the low one first.
GLINT_BOTH_SIDES inline std::uint64_t both_halves(const std::int32_t* halves) {
  return std::uint64_t{static_cast<std::uint32_t>(halves[1])} << 32 |
         static_cast<std::uint32_t>(halves[0]);
}
GLINT_BOTH_SIDES inline double double_of(const std::int32_t* halves) {
  return __builtin_bit_cast(double, both_halves(halves));
}

// The logit x of an id with a count (ops/sequences.h), by its row's penalties (SampleArgs): divided
// by the repetition penalty, or multiplied if it is negative; less the frequency penalty for each
// time that the answer has it, and the presence penalty if it does, in f64.
GLINT_BOTH_SIDES inline float penalized(float x, std::int32_t count,
                                        const std::int32_t* penalties) {
  const float repetition = static_cast<float>(double_of(penalties));
  const double presence = double_of(penalties + 2), frequency = double_of(penalties + 4);
  const std::int32_t times = count / kCountOfSaid;
  x = x < 0 ? x * repetition : x / repetition;
  return x - static_cast<float>(frequency * times + (times > 0 ? presence : 0));
}

// A weight in [0, 1] in units of 2^-40, of which a vocabulary's fit 64 bits.
GLINT_BOTH_SIDES inline std::uint64_t weight_units(float weight) {
  return static_cast<std::uint64_t>(weight * 1099511627776.0f);
}
// The units that a share of `total` needs; 1 at least, `total` at most.
GLINT_BOTH_SIDES inline std::uint64_t units_of_share(float share, std::uint64_t total) {
  if (share >= 1) return total;
  const double wanted = static_cast<double>(share) * static_cast<double>(total);
  const std::uint64_t units = static_cast<std::uint64_t>(wanted);
  const std::uint64_t up = static_cast<double>(units) < wanted ? units + 1 : units;
  return up < 1 ? 1 : up < total ? up : total;
}

// ln(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)], by the polynomial of Cephes' logf.
GLINT_BOTH_SIDES inline float log_near_one(float f) {
  const float z = f * f;
  float p = 7.0376836292e-2f;
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  return f + (p * f * z - 0.5f * z);
}

// ln x of a positive normal number, within 2e-7 of 1 or of it.
GLINT_BOTH_SIDES inline float log_of(float x) {
  const std::uint32_t bits = bits_of(x);
  // The exponent that leaves a mantissa in [sqrt(1/2), sqrt(2)).
  const std::uint32_t shifted = bits - 0x3f3504f3u;
  const std::int32_t exponent = static_cast<std::int32_t>(shifted) >> 23;
  const float mantissa = float_of((shifted & 0x7fffffu) + 0x3f3504f3u);
  const float n = static_cast<float>(exponent);
  return n * 0.693359375f + (n * -2.12194440e-4f + log_near_one(mantissa - 1.0f));
}

// 1 - (n + 1/2) / 2^32, and the first that is exponentially distributed: -ln of that, in [2^-34,
// 23). Numbers near 1 keep the precision of their distance to it.
GLINT_BOTH_SIDES inline float distance_to_one(std::uint32_t n) {
  return (static_cast<float>(n) + 0.5f) * 2.3283064365386963e-10f;
}
GLINT_BOTH_SIDES inline float exponential(std::uint32_t n) {
  const float distance = distance_to_one(n);
  if (distance < 0.25f) return 0.0f - log_near_one(0.0f - distance);
  return 0.0f - log_of(distance_to_one(~n));
}

// The id's 32 random bits: four neighbouring ids share a block of philox.
GLINT_BOTH_SIDES inline std::uint32_t sample_bits(std::uint64_t seed, std::uint32_t position,
                                                  std::uint32_t id) {
  return philox(seed, position, id / 4)[id % 4];
}
GLINT_BOTH_SIDES inline float gumbel_of(std::uint32_t bits) {
  return 0.0f - log_of(exponential(bits));
}

}  // namespace glint
