// The only place that names concrete backends.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/machine.h"
#include "base/result.h"
#include "ops/ops.h"

namespace glint {

struct BackendOptions {
  std::string name;     // "cpu", "reference", "cuda"
  std::string cpu_isa;  // "auto" or the name of an instruction set
  int threads = 1;
};

// Fails with one sentence if this build or machine does not have it.
Result<std::unique_ptr<Ops>> make_backend(const BackendOptions& options);

// The limits of the machine that `ops` runs on. Fails for a backend whose limits nothing measures.
Result<MachineLimits> measure_limits(Ops& ops);

// "2 threads of avx512_bf16: reads 36.0 GB/s, 239 GFLOP/s in f32, 460 GFLOP/s in bf16".
std::string describe(const MachineLimits& limits, Ops& ops);

}  // namespace glint
