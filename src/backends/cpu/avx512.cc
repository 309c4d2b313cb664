// Kernels for AVX-512 (F, BW, VL, DQ).
#define GLINT_LANES 16
// Each part builds on those before it.
// clang-format off
#include "backends/cpu/vec.inc"
#include "backends/cpu/panels.inc"
#include "backends/cpu/panels_avx512.inc"
#include "backends/cpu/rows.inc"
#include "backends/cpu/attention_rows.inc"
// clang-format on
#include "backends/cpu/tables.h"

namespace glint::cpu {

const Kernels& avx512_kernels() {
  static constexpr Kernels kKernels = [] {
    Kernels kernels = vector_kernels("avx512");
    kernels.pack[kCodeF32] = pack_avx512<kCodeF32>;
    kernels.pack[kCodeBf16] = pack_avx512<kCodeBf16>;
    kernels.pack[kCodeFp8] = pack_avx512<kCodeFp8>;
    kernels.pack[kCodeNvfp4] = pack_avx512<kCodeNvfp4>;
    kernels.pack_scales = pack_scales_avx512;
    return kernels;
  }();
  return kKernels;
}

}  // namespace glint::cpu
