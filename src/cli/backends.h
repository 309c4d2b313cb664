// The only place that names concrete backends.
#pragma once

#include <memory>
#include <string>

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

}  // namespace glint
