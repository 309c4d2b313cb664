// Figures of a benchmark, in the one form that all of them write and tools/bench_compare.py and
// tools/bench_tables.py read: bench/results/README.md explains its fields.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "doctor/facts.h"

namespace glint {

struct Figure {
  std::string name;  // what was measured, the same from run to run: "decode 64 at depth 0, batch 1"
  std::string unit;  // "tok/s"
  bool more_is_better = true;
  std::vector<double> samples = {};  // one per round; at least one
};

// [{"name", "unit", "better", "median", "low", "high", "rounds", "samples"}, ...]
Json figures_json(std::span<const Figure> figures);

struct BenchRun {
  std::string benchmark;  // "bench local"
  Json options = {};      // an object: what was asked for, as far as figures depend on it
  Rates rates = {};       // of the machine, where the benchmark measures them
  std::vector<Figure> figures = {};
};

// Before a measurement begins: fails if its result could not be written to `path`. An empty one is
// no file.
Status check_result_file(const std::string& path);

// Writes the run with this machine and this build to `path`. Without a date: whoever keeps the file
// knows it, and two runs differ in what was measured only. Nothing is written if `path` is empty.
Status write_figures(const std::string& path, const BenchRun& run);

}  // namespace glint
