// What this machine can do at most, measured: the yardstick of selftest and of the benchmarks.
#pragma once

#include "backends/cpu/isa.h"
#include "base/thread_pool.h"

namespace glint {

struct MachineLimits {
  int threads = 1;
  double read_gb_s = 0;   // memory read by all threads together, 10^9 bytes a second
  double f32_gflops = 0;  // fused multiply-adds in f32
  double matrix_gflops =
      0;  // of the instruction that multiplies bf16: AMX, vdpbf16ps, else f32 FMA
};

// Takes about a second. The best of several short runs each: what disturbs a run only makes it
// slower.
MachineLimits measure_machine(CpuIsa isa, ThreadPool& pool);

}  // namespace glint
