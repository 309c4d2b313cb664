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
  static constexpr Kernels kKernels = {.name = "avx2",
                                       .pack = {pack_scalar<kCodeF32>, pack_scalar<kCodeBf16>,
                                                pack_scalar<kCodeFp8>, pack_scalar<kCodeNvfp4>},
                                       .pack_scales = pack_scales_scalar,
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
