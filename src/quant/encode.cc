#include "quant/encode.h"

#include "base/check.h"
#include "quant/encode_kernels.h"
#include "tensor/fp8.h"
#include "tensor/weight.h"

namespace glint {
namespace {

// Null if the build has none.
const quant::EncodeKernels* kernels_of(EncodeIsa isa) {
  switch (isa) {
    case EncodeIsa::kPortable:
      return &quant::portable_kernels();
    case EncodeIsa::kAvx2:
      return quant::avx2_kernels();
    case EncodeIsa::kAvx512:
      return quant::avx512_kernels();
  }
  return nullptr;
}

bool machine_has(EncodeIsa isa) {
  if (isa == EncodeIsa::kPortable) return true;
#if defined(__x86_64__)
  if (isa == EncodeIsa::kAvx2) return __builtin_cpu_supports("avx2");
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

}  // namespace

const char* name_of(EncodeIsa isa) {
  constexpr const char* kNames[] = {"portable", "avx2", "avx512"};
  return kNames[static_cast<std::size_t>(isa)];
}

std::vector<EncodeIsa> encode_isas() {
  std::vector<EncodeIsa> isas;
  for (const EncodeIsa isa : {EncodeIsa::kPortable, EncodeIsa::kAvx2, EncodeIsa::kAvx512}) {
    if (kernels_of(isa) && machine_has(isa)) isas.push_back(isa);
  }
  return isas;
}

float nvfp4_global_scale(float amax, ScaleRule rule, bool power_of_two) {
  if (amax == 0) return 1;
  // Below the smallest normal number the scale itself would lose bits.
  constexpr float kSmallest = 0x1p-126f;
  const float largest_scale = rule == ScaleRule::kFourOverSix ? 256 : 448;
  const float scale = amax / (6 * largest_scale);
  if (scale < kSmallest) return kSmallest;
  return power_of_two ? pow2_ceil(scale) : scale;
}

double encode_nvfp4_groups(EncodeIsa isa, const Nvfp4Target& target, const float* values,
                           std::int64_t groups, std::uint8_t* packed, std::uint8_t* scales) {
  return kernels_of(isa)->nvfp4(target, values, groups, packed, scales);
}

double encode_fp8_tile(EncodeIsa isa, Fp8ScaleFormat format, const Fp8Block& block, float* scale) {
  GLINT_CHECK(block.rows >= 0 && block.rows <= kFp8Block && block.cols >= 0 &&
                  block.cols <= kFp8Block && block.stride >= block.cols,
              "a block is at most 128 x 128");
  return kernels_of(isa)->fp8(format, block, scale);
}

}  // namespace glint
