// The kernels of the quantiser: f32 rows in, NVFP4 groups or FP8 tiles out.
//
// One source (encode.inc) is compiled for the instruction set that every machine has, for AVX2 and
// for AVX-512. It uses only single IEEE operations in a fixed order, so all give the same bytes and
// the same errors; formats.h holds the scalar definitions that they are tested against.
#pragma once

#include <cstdint>
#include <vector>

#include "quant/recipe.h"

namespace glint {

enum class EncodeIsa : std::uint8_t { kPortable, kAvx2, kAvx512 };

const char* name_of(EncodeIsa isa);
std::vector<EncodeIsa> encode_isas();  // those that this machine has, the best one last

// weight_scale_2 of a tensor whose largest magnitude is `amax`: amax / (6 * 448), for kFourOverSix
// amax / (6 * 256), rounded up to a power of two if so asked; 1 if amax is 0.
float nvfp4_global_scale(float amax, ScaleRule rule, bool power_of_two);

// `values` [groups * 16] -> packed [groups * 8], scales e4m3 [groups]. Returns the sum of squared
// differences between `values` and what the output decodes to.
//
//   kAbsmax       scale = e4m3(clamp(amax / (6 * global_scale), 2^-9, 448)), as ModelOpt has it
//   kFourOverSix  that, or e4m3(amax / (4 * global_scale)), whichever has the lower error
//   kSearch       the one of lowest error among the e4m3 numbers from amax / 8 to amax / 3.5; never
//                 worse than kAbsmax in any group
//
// Groups of zeros have scale 1 and codes 0. Nothing in `values` may be NaN or infinite.
struct Nvfp4Target {
  ScaleRule rule = ScaleRule::kSearch;
  float global_scale = 1;
};
double encode_nvfp4_groups(EncodeIsa isa, const Nvfp4Target& target, const float* values,
                           std::int64_t groups, std::uint8_t* packed, std::uint8_t* scales);

// As in the converters whose checkpoints engines are used to: no FP8 scale is subnormal.
inline constexpr float kLeastFp8Amax = 1e-12f;

// One block of `values` [rows <= 128, cols <= 128], `stride` apart in `values` and in `codes`.
// Chooses the scale first (amax / 448, for kUe8m0 rounded up to a power of two; 1 where all is
// zero) and rounds with it. An amax below kLeastFp8Amax counts as that. Returns the sum of squared
// differences.
struct Fp8Block {
  const float* values = nullptr;
  std::uint8_t* codes = nullptr;
  std::int64_t rows = 0, cols = 0, stride = 0;
};
double encode_fp8_tile(EncodeIsa isa, Fp8ScaleFormat format, const Fp8Block& block, float* scale);

}  // namespace glint
