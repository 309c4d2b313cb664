// Backends by the names that --backend gives them.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/machine.h"
#include "base/result.h"
#include "ops/backend.h"

namespace glint {

struct BackendOptions {
  std::string name;     // "auto", "cpu", "reference", "cuda"
  std::string cpu_isa;  // "auto" or the name of an instruction set
  int threads = 1;
  int device = 0;           // of GPUs
  bool use_windows = true;  // ranks on GPUs read each other's memory where they can
};

// The GPU of a rank, of which `here` are on each machine: they are numbered machine by machine. A
// process that is shown one GPU uses that.
int device_of_rank(int rank, int here);
// Keeps a process, before it starts threads, to CPUs beside the memory that is its rank's on a
// machine with several (cpu_nodes.h), unless it computes on a GPU.
void keep_to_memory(const std::string& backend, int rank, int here);
// Fails where this machine has no GPU for each of the `here` ranks that it runs; who is `launched`
// may be shown its own alone. `instead`: what else to do.
Status check_devices(int here, bool launched, const char* instead = "run them with --backend cpu");
// Memory that a group of several ranks takes on each one's device.
std::int64_t bytes_of_group(const std::string& backend);

// The backend that "auto" is here: "cuda" if this build has it and the machine a device that is fit
// for it, else "cpu". Other names are what they are.
std::string resolve_backend(const std::string& name);

// Fails with one sentence if this build or machine does not have it.
Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options);

// The limits of the machine that `backend` runs on. Fails for a backend whose limits nothing
// measures.
Result<MachineLimits> measure_limits(Backend& backend);

// "2 threads of avx512_bf16: reads 36.0 GB/s, 239 GFLOP/s in f32, 460 GFLOP/s in bf16".
std::string describe(const MachineLimits& limits, const Backend& backend);

}  // namespace glint
