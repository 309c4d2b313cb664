#include "cli/backends.h"

#include <algorithm>

#include "backends/cpu/cpu_ops.h"
#include "backends/cuda/cuda_ops.h"
#include "backends/reference/reference_ops.h"
#include "base/cpu_nodes.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "ops/capabilities.h"

namespace glint {
namespace {

// A base class, so that the threads outlive the ops that use them.
struct OwnedPool {
  explicit OwnedPool(int threads) : pool(threads) {}
  ThreadPool pool;
};

class CpuBackend final : private OwnedPool, public CpuOps {
 public:
  CpuBackend(CpuIsa isa, int threads) : OwnedPool(threads), CpuOps(isa, OwnedPool::pool) {}
  MachineLimits measure() { return measure_machine(isa(), OwnedPool::pool); }
};

Result<CpuIsa> choose_isa(const std::string& name) {
  if (name == "auto") return best_cpu_isa();
  GLINT_TRY(const CpuIsa isa, parse_cpu_isa(name));
  if (cpu_has(isa)) return isa;
  GLINT_TRY(const CpuIsa best, best_cpu_isa());
  return unsupported(str("this CPU has no ", name, "; its best is --cpu-isa ", name_of(best)));
}

}  // namespace

std::string resolve_backend(const std::string& name) {
  if (name != "auto") return name;
  return find_cuda_device(0).ok() ? "cuda" : "cpu";
}

int device_of_rank(int rank, int here) {
  return num_cuda_devices() == 1 ? 0 : rank % std::max(here, 1);
}

void keep_to_memory(const std::string& backend, int rank, int here) {
  if (here < 2 || resolve_backend(backend) == "cuda") return;
  const std::vector<int> cpus = cpus_of_rank(cpu_nodes(cpus_at_start()), rank % here, here);
  if (!keep_to_cpus(cpus)) {
    log(LogLevel::kWarning,
        str("rank ", rank, " cannot be kept to the CPUs of one node of memory, and is slower"));
  }
}

Status check_devices(int here, bool launched, const char* instead) {
  const int devices = num_cuda_devices();
  if (here <= devices || (launched && devices == 1)) return Ok{};
  return unsupported(str(here, " ranks need a GPU each, and this machine has ", devices,
                         "; ask for fewer ranks, or ", instead));
}

std::int64_t bytes_of_group(const std::string& backend) {
  return resolve_backend(backend) == "cuda" ? cuda_group_bytes() : 0;
}

Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options) {
  const std::string name = resolve_backend(options.name);
  if (name == "cuda") {
    GLINT_TRY(std::unique_ptr<Backend> backend, make_cuda_ops(options.device, options.use_windows));
    if (const std::string note = cuda_device_note(options.device); !note.empty()) {
      log(LogLevel::kWarning, note);
    }
    return backend;
  }
  if (name == "reference") return std::make_unique<ReferenceOps>();
  if (options.name == "auto" && file_exists("/dev/nvidiactl")) {
    log(LogLevel::kWarning, str("the CPU computes, though this machine has a GPU: ",
                                find_cuda_device(0).error().message));
  }
  GLINT_TRY(const CpuIsa isa, choose_isa(options.cpu_isa));
  return std::make_unique<CpuBackend>(isa, options.threads);
}

Result<MachineLimits> measure_limits(Backend& backend) {
  if (auto* const cpu = dynamic_cast<CpuBackend*>(&backend)) return cpu->measure();
  return unsupported(str("the limits of the ", backend.capabilities().backend,
                         " backend are not measured; run with --backend cpu"));
}

std::string describe(const MachineLimits& limits, const Backend& backend) {
  return formatted("%d threads of %s: reads %.1f GB/s, %.0f GFLOP/s in f32, %.0f GFLOP/s in bf16",
                   limits.threads, backend.capabilities().backend.c_str(), limits.read_gb_s,
                   limits.f32_gflops, limits.matrix_gflops);
}

}  // namespace glint
