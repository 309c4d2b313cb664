// One rank of a model that no single device holds, timed alone: glint bench local --emulate-rank.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "runtime/model_options.h"

namespace glint {

struct RankBench {
  std::string layout;  // "tp=8"
  std::vector<int> prompt, depth, batch;
  int tokens = 64, repeat = 5;
  std::string figures;  // the file
};

// Prints the table. `model` says which configuration, and in which formats.
Status bench_rank(const RankBench& bench, const ModelOptions& model, Backend& backend, Cli& cli);

}  // namespace glint
