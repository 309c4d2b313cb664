// The tile registers in software, for tests on CPUs without AMX: every rounding as in Intel's
// description of TDPBF16PS.
#define GLINT_LANES 16
// Each part builds on those before it.
// clang-format off
#include "backends/cpu/vec.inc"
#include "backends/cpu/panels.inc"
#include "backends/cpu/bf16_tiles.inc"
#include "backends/cpu/amx.inc"
// clang-format on
#include "backends/cpu/tables.h"

namespace glint::cpu {
namespace {

class EmulatedTiles {
 public:
  EmulatedTiles(TileRows rows, TileRows&) : config_(rows) {}

  template <int kTile>
  void load(const void* from, std::int64_t stride) {
    for (int r = 0; r < 16; ++r) {
      std::memset(data_[kTile][r], 0, 64);
      if (r < config_.rows[kTile]) {
        std::memcpy(data_[kTile][r], static_cast<const std::byte*>(from) + r * stride,
                    config_.row_bytes[kTile]);
      }
    }
  }
  template <int kTile>
  void store(void* to, std::int64_t stride) const {
    for (int r = 0; r < config_.rows[kTile]; ++r) {
      std::memcpy(static_cast<std::byte*>(to) + r * stride, data_[kTile][r],
                  config_.row_bytes[kTile]);
    }
  }
  template <int kTile>
  void zero() {
    std::memset(data_[kTile], 0, sizeof data_[kTile]);
  }
  // The even and the odd k's of a tile are summed apart, from zero, then together, then to the sum.
  template <int kSum, int kA, int kB>
  void multiply() {
    for (int m = 0; m < config_.rows[kSum]; ++m) {
      for (int n = 0; n < 16; ++n) {
        float parts[2] = {};
        for (int k = 0; k < 16; ++k) {
          for (int i = 0; i < 2; ++i) {
            parts[i] =
                flushed(__builtin_fmaf(value(kA, m, 2 * k + i), value(kB, k, 2 * n + i), parts[i]));
          }
        }
        const float together = flushed(parts[0] + parts[1]);
        float sum;
        std::memcpy(&sum, &data_[kSum][m][4 * n], sizeof sum);
        sum = flushed(flushed(sum) + together);
        std::memcpy(&data_[kSum][m][4 * n], &sum, sizeof sum);
      }
    }
  }

 private:
  // Subnormal numbers are zeros.
  static float flushed(float x) {
    const auto u = __builtin_bit_cast(std::uint32_t, x);
    return u & 0x7f800000u ? x : __builtin_bit_cast(float, u & 0x80000000u);
  }
  float value(int tile, int row, int i) const {
    std::uint16_t u;
    std::memcpy(&u, &data_[tile][row][2 * i], sizeof u);
    return flushed(__builtin_bit_cast(float, static_cast<std::uint32_t>(u) << 16));
  }

  TileConfig config_;
  std::byte data_[kNumTiles][16][64];
};

}  // namespace

const Kernels& amx_emulated_kernels() {
  static const Kernels kKernels = [] {
    Kernels kernels = avx512_bf16_kernels();
    kernels.name = "amx_emulated";
    kernels.bf16 = kAmxFamily<EmulatedTiles>;
    return kernels;
  }();
  return kKernels;
}

}  // namespace glint::cpu
