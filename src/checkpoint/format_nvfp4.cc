// NVFP4 in groups of 16, as released checkpoints have it (formats.h).
#include <algorithm>

#include "checkpoint/formats.h"
#include "tensor/fp8.h"
#include "tensor/nvfp4.h"

namespace glint {
namespace {

constexpr float kE2m1Max = 6, kE4m3Max = 448;

std::uint8_t group_scale(float amax, float global_scale) {
  const float raw = amax / (kE2m1Max * global_scale);
  return float_to_e4m3(raw == 0 ? 1 : std::clamp(raw, 0x1p-9f, kE4m3Max));
}

}  // namespace

float nvfp4_global_scale(float amax) { return amax > 0 ? amax / (kE2m1Max * kE4m3Max) : 1; }

void encode_nvfp4(const float* values, std::int64_t rows, std::int64_t cols, float global_scale,
                  std::uint8_t* packed, std::uint8_t* scales) {
  GLINT_CHECK(cols % kNvfp4Group == 0, "rows must be whole groups");
  for (std::int64_t group = 0; group < rows * cols / kNvfp4Group; ++group) {
    const float* value = values + group * kNvfp4Group;
    scales[group] = group_scale(largest_magnitude(value, kNvfp4Group), global_scale);
    const float scale = e4m3_to_float(scales[group]) * global_scale;
    for (int i = 0; i < kNvfp4Group / 2; ++i) {
      const int low = float_to_e2m1(value[2 * i] / scale);
      const int high = float_to_e2m1(value[2 * i + 1] / scale);
      packed[group * kNvfp4Group / 2 + i] = static_cast<std::uint8_t>(low | high << 4);
    }
  }
}

}  // namespace glint
