// Rows of an fp8 cache, by the kernels of every instruction set.
#include <gtest/gtest.h>

#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels.h"
#include "tensor/dtype.h"
#include "tensor/fp8.h"

namespace glint::cpu {
namespace {

TEST(Dequantize, gives_every_code_times_the_scale_rounded_once_and_writes_nothing_else) {
  for (const CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16}) {
    if (!cpu_has(isa)) continue;
    for (const std::int64_t size : {1, 31, 32, 33, 64, 100, 128, 256}) {
      std::vector<std::uint8_t> codes;
      for (std::int64_t i = 0; i < size; ++i) {
        const auto code = static_cast<std::uint8_t>(i * 7);
        codes.push_back((code & 0x7f) == 0x7f ? 0 : code);  // no NaN
      }
      const float scale = 0.0123f;
      std::vector<BF16> narrow(static_cast<std::size_t>(size) + 1, to_bf16(5));
      std::vector<float> wide(static_cast<std::size_t>(size) + 1, 5);
      kernels_for(isa).dequantize(codes.data(), scale, narrow.data(), true, size);
      kernels_for(isa).dequantize(codes.data(), scale, wide.data(), false, size);
      for (std::size_t i = 0; i < codes.size(); ++i) {
        const float value = e4m3_to_float(codes[i]) * scale;
        EXPECT_EQ(wide[i], value) << name_of(isa) << " " << i;
        EXPECT_EQ(to_float(narrow[i]), to_float(to_bf16(value))) << name_of(isa) << " " << i;
      }
      EXPECT_EQ(wide.back(), 5) << name_of(isa);
      EXPECT_EQ(to_float(narrow.back()), 5) << name_of(isa);
    }
  }
}

}  // namespace
}  // namespace glint::cpu
