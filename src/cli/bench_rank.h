// One rank of a model that no single device holds, timed alone: glint bench local --emulate-rank.
#pragma once

#include <string>

#include "cli/command.h"
#include "runtime/bench_local.h"

namespace glint {

struct RankBench {
  std::string layout;  // "tp=8"
  BenchOptions loads;
  std::string figures;  // the file
};

// Prints the table. `model` says which configuration, and in which formats.
Status bench_rank(const RankBench& bench, const ModelOptions& model, Backend& backend, Cli& cli);

}  // namespace glint
