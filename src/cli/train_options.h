// Options of every command that trains: how its one process computes.
#pragma once

#include <string>

#include "cli/model_options.h"

namespace glint {

struct TrainRunOptions {
  std::string dtype = "bf16", index, backend = "auto", cpu_isa = "auto";
  int threads = 0;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Running");
    v("dtype", dtype, "what to compute in; gradients and the optimiser are f32 with either",
      {"bf16", "f32"});
    v("index", index,
      "index keys as they are, or in fp8 as in production (default: exact with f32, else fp8)",
      {"exact", "fp8"});
    v("threads,t=N", threads, "threads (default: OMP_NUM_THREADS, else one per CPU)");
    v("backend", backend,
      "who computes; auto: a GPU that is fit for it, else the CPU. The optimiser is the host's",
      {"auto", "cpu", "cuda", "reference"});
    v("cpu-isa", cpu_isa, "instruction set of the cpu backend (default: the best of this machine)",
      {"auto", "avx2", "avx512", "avx512_bf16", "amx", "amx_emulated"});
  }

  // Weights change where they lie, and products with their transposes read them as well: they are
  // not packed.
  RunOptions of_model(const std::string& model) const {
    return {.model = model,
            .backend = backend,
            .cpu_isa = cpu_isa,
            .threads = threads,
            .dtype = dtype,
            .kv_dtype = "",
            .index = index,
            .load_format = "auto",
            .pack = "never"};
  }
};

}  // namespace glint
