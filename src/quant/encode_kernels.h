// Kernels of encode.inc for each instruction set, between encode.cc and its compilations.
#pragma once

#include "quant/encode.h"

namespace glint::quant {

struct EncodeKernels {
  double (*nvfp4)(const Nvfp4Target& target, const float* values, std::int64_t groups,
                  std::uint8_t* packed, std::uint8_t* scales);
  double (*fp8)(Fp8ScaleFormat format, const Fp8Block& block, float* scale);
};

const EncodeKernels& portable_kernels();
// Null in builds for other processors.
const EncodeKernels* avx2_kernels();
const EncodeKernels* avx512_kernels();

}  // namespace glint::quant
