// Kernels for AVX2 with FMA.
#define GLINT_LANES 8
// Each part builds on those before it.
// clang-format off
#include "backends/cpu/vec.inc"
#include "backends/cpu/panels.inc"
#include "backends/cpu/rows.inc"
#include "backends/cpu/attention_rows.inc"
// clang-format on
#include "backends/cpu/tables.h"

namespace glint::cpu {

const Kernels& avx2_kernels() {
  static constexpr Kernels kKernels = [] {
    Kernels kernels = vector_kernels("avx2");
    kernels.pack[kCodeF32] = pack_narrow<kCodeF32>;
    kernels.pack[kCodeBf16] = pack_narrow<kCodeBf16>;
    kernels.pack[kCodeFp8] = pack_narrow<kCodeFp8>;
    kernels.pack[kCodeNvfp4] = pack_narrow<kCodeNvfp4>;
    kernels.pack_scales = pack_scales_scalar;
    return kernels;
  }();
  return kKernels;
}

}  // namespace glint::cpu
