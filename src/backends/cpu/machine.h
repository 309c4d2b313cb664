// Peak rates of this machine, measured: the yardstick of selftest and of the benchmarks.
#pragma once

#include <span>

#include "backends/cpu/isa.h"

namespace glint {

class ThreadPool;

struct MachineLimits {
  CpuIsa isa = {};
  int threads = 1;
  double read_gb_s = 0;   // memory read by all threads together, 10^9 bytes a second
  double f32_gflops = 0;  // fused multiply-adds in f32
  double matrix_gflops =
      0;  // of the instruction that multiplies bf16: AMX, vdpbf16ps, else f32 FMA
};

// How fast all threads together read `memory`, in 10^9 bytes a second: the best of `times` runs.
// `memory` is aligned to 8 bytes and far larger than any cache.
double read_gb_s(std::span<const std::byte> memory, ThreadPool& pool, int times = 8);

// The rate of all threads together at the faster of the instructions of `isa` that multiply bf16
// and f32, in 10^9 operations a second: the best of `times` runs of each, of `length` half
// milliseconds or so.
double matrix_gflops(CpuIsa isa, ThreadPool& pool, int times = 8, int length = 1);

// Takes about a second. The best of several short runs each: what disturbs a run only makes it
// slower.
MachineLimits measure_machine(CpuIsa isa, ThreadPool& pool);

}  // namespace glint
