// Philox4x32-10 (Salmon et al., SC'11): random numbers that are a pure function of (seed, stream,
// index), so that what a request draws does not depend on its batch or on threads.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace glint {

// 128 random bits for counter (index, stream) under key `seed`.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t stream,
                                              std::uint64_t index) {
  std::uint32_t c[4] = {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                        static_cast<std::uint32_t>(stream),
                        static_cast<std::uint32_t>(stream >> 32)};
  std::uint32_t k0 = static_cast<std::uint32_t>(seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1;
    c[0] = n0;
    c[1] = static_cast<std::uint32_t>(p1);
    c[2] = n2;
    c[3] = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c[0], c[1], c[2], c[3]};
}

// A stream of numbers: the i-th draw is a function of (seed, stream, i) alone.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  std::uint32_t bits() {
    if (used_ == 4) block_ = philox(seed_, stream_, index_++), used_ = 0;
    return block_[used_++];
  }
  std::uint64_t bits64() { return std::uint64_t{bits()} << 32 | bits(); }

  // Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(bits64() >> 11) * 0x1p-53; }

  // Uniform in [0, n), n >= 1.
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>((std::uint64_t{bits()} * n) >> 32);
  }

  // Standard normal (Box-Muller).
  double normal() {
    const double u = 1.0 - uniform(), v = uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
  }

 private:
  std::uint64_t seed_, stream_, index_ = 0;
  std::array<std::uint32_t, 4> block_ = {};
  int used_ = 4;
};

}  // namespace glint
