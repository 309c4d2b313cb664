// Kernels for AVX-512 with BF16 and VBMI.
#define GLINT_LANES 16
// Each part builds on those before it.
// clang-format off
#include "backends/cpu/vec.inc"
#include "backends/cpu/panels.inc"
#include "backends/cpu/bf16_tiles.inc"
// clang-format on
#include "backends/cpu/tables.h"

namespace glint::cpu {

const Kernels& avx512_bf16_kernels() {
  static const Kernels kKernels = [] {
    Kernels kernels = avx512_kernels();
    kernels.name = "avx512_bf16";
    kernels.bf16 = kBf16Family;
    kernels.has_bf16 = true;
    return kernels;
  }();
  return kKernels;
}

}  // namespace glint::cpu
