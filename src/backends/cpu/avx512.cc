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
  static constexpr Kernels kKernels = {.name = "avx512",
                                       .pack = {pack_avx512<kCodeF32>, pack_avx512<kCodeBf16>,
                                                pack_avx512<kCodeFp8>, pack_avx512<kCodeNvfp4>},
                                       .pack_scales = pack_scales_avx512,
                                       .f32 = kF32Family,
                                       .bf16 = {},
                                       .has_bf16 = false,
                                       .rms_norm = rms_norm_row,
                                       .layer_norm = layer_norm_row,
                                       .silu_mul = silu_mul_row,
                                       .rope = rope_row,
                                       .store = store_row,
                                       .combine = combine_row,
                                       .softmax = softmax_step,
                                       .interleave = interleave_rows,
                                       .transpose = transpose_columns,
                                       .scale = scale_floats,
                                       .relu_sum = relu_sum,
                                       .dequantize = dequantize_e4m3,
                                       .quantize = quantize_row,
                                       .convert = convert_row};
  return kKernels;
}

}  // namespace glint::cpu
