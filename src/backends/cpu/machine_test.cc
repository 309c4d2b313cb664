#include "backends/cpu/machine.h"

#include <gtest/gtest.h>

#include "base/thread_pool.h"

namespace glint {
namespace {

TEST(Machine, every_instruction_set_present_has_limits) {
  ThreadPool pool(1);
  for (const CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16, CpuIsa::kAmx}) {
    if (!cpu_has(isa)) continue;
    const MachineLimits limits = measure_machine(isa, pool);
    EXPECT_GT(limits.read_gb_s, 0) << name_of(isa);
    EXPECT_GT(limits.f32_gflops, 0) << name_of(isa);
    EXPECT_GE(limits.matrix_gflops, isa < CpuIsa::kAvx512Bf16 ? limits.f32_gflops : 0)
        << name_of(isa);
  }
}

}  // namespace
}  // namespace glint
