// The hardware's tile registers.
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

// In assembly, as g++'s intrinsics want the tile's number as a literal.
class HardwareTiles {
 public:
  HardwareTiles(TileRows rows, TileRows& now) {
    if (rows.first == now.first && rows.second == now.second) return;
    const TileConfig config(rows);
    asm volatile("ldtilecfg %0" ::"m"(config));
    now = rows;
  }

  template <int kTile>
  GLINT_INLINE void load(const void* from, std::int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  GLINT_INLINE void store(void* to, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  GLINT_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kSum, int kA, int kB>
  GLINT_INLINE void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
  }
};

// Tile data in use would be saved at every switch of threads.
void release(TileRows& now) {
  if (now.first) asm volatile("tilerelease");
  now = {};
  avx512_bf16_kernels().leave(now);
}

}  // namespace

const Kernels& amx_kernels() {
  static const Kernels kKernels = [] {
    Kernels kernels = avx512_bf16_kernels();
    kernels.name = "amx";
    kernels.bf16 = kAmxFamily<HardwareTiles>;
    kernels.leave = release;
    return kernels;
  }();
  return kKernels;
}

}  // namespace glint::cpu
