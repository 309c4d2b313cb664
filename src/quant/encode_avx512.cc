// Compiled with the flags of AVX-512: see CMakeLists.txt.
#include "quant/encode_kernels.h"

namespace glint::quant {
#if defined(__AVX512F__)
namespace {

constexpr int kLanes = 16;
#include "quant/encode.inc"

constexpr EncodeKernels kKernels = {.nvfp4 = encode_nvfp4, .fp8 = encode_fp8};

}  // namespace

const EncodeKernels* avx512_kernels() { return &kKernels; }
#else
const EncodeKernels* avx512_kernels() { return nullptr; }
#endif

}  // namespace glint::quant
