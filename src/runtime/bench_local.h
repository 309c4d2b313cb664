// The local benchmark: how fast this model runs here, without a server, in the terms of
// llama-bench.
#pragma once

#include <functional>
#include <vector>

#include "runtime/loaded_model.h"

namespace glint {

// Speeds that the machine can reach at the moment.
struct Limits {
  double read_gb_s = 0, matrix_gflops = 0;
};

struct BenchOptions {
  std::vector<int> prompt = {512};  // prefill lengths; 0: none
  int tokens = 64;                  // decode steps per sample; 0: no decode
  std::vector<int> depth = {0};     // tokens in the cache beforehand
  std::vector<int> batch = {1};     // sequences that decode together
  int repeat = 5;
  // Asked before each sample: neighbours change them within seconds.
  std::function<Limits()> limits;
};

struct BenchResult {
  bool prefill = false;
  int tokens = 0;  // prompt length, or decode steps
  int depth = 0;
  int batch = 1;
  std::vector<double> tokens_per_s = {};  // one per sample, of all sequences together
  std::vector<Limits> limits = {};        // one per sample
  // Expected of such a pass, on all ranks together: each weight that a step needs once, each key
  // that is read once for a sequence; experts are as if all were as likely.
  double bytes_per_token = 0;
  double flops_per_token = 0;
};

// Fails if the model has fewer positions than a sequence of them.
Status check_lengths(const BenchOptions& options, const ModelConfig& model);

// Runs every combination and reports each when it is done. A device's decode steps are not waited
// for one by one. Tokens are drawn uniformly, so that routing is too; each sequence has a cache of
// its own (where it is filled beforehand, a copy of the first one's, unless followers would have to
// copy too). Replicas share the sequences of a batch.
Status bench_local(LoadedModel& model, const BenchOptions& options,
                   const std::function<void(const BenchResult&)>& report);

}  // namespace glint
