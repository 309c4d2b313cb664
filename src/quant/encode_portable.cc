// Vectors of 16 bytes, which every machine has.
#include "quant/encode_kernels.h"

namespace glint::quant {
namespace {

constexpr int kLanes = 4;
#include "quant/encode.inc"

constexpr EncodeKernels kKernels = {.nvfp4 = encode_nvfp4, .fp8 = encode_fp8};

}  // namespace

const EncodeKernels& portable_kernels() { return kKernels; }

}  // namespace glint::quant
