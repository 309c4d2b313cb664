// The facts of a machine as JSON: of `glint doctor --json`, and in the files of results that
// benchmarks write.
#pragma once

#include <span>

#include "base/json.h"
#include "doctor/facts.h"
#include "doctor/findings.h"

namespace glint {

// Everything that is known.
Json to_json(const MachineFacts& machine);

// The machine on which a number was measured: processor, memory, GPUs, system; no names of folders,
// variables or libraries.
Json machine_summary(const MachineFacts& machine);

Json to_json(const Rates& rates);
Json to_json(std::span<const Finding> findings);

}  // namespace glint
