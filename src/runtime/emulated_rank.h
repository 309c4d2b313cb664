// EmulatedRank: one rank of a divided model, alone on a device, with made-up weights of its share.
// Its results are of no use; how long they take is what the rank's kernels take.
//
// Left out: the collectives, and with them the ranks' waiting for each other; sampling and the
// host's part. Experts are chosen as drawn uniformly, seeded, and not as its router would.
#pragma once

#include <memory>

#include "model/rope_on_device.h"
#include "runtime/step_trial.h"

namespace glint {

struct EmulatedLoad {
  int sequences = 1;
  std::int64_t rows = 1;     // of each sequence, its last: 1 is a decode step
  std::int64_t context = 1;  // tokens of each, these included
};

class EmulatedRank {
 public:
  // Fails with one sentence if the device has no room for the weights, or for `num_pages` of cache.
  // `ops` outlives the rank.
  static Result<std::unique_ptr<EmulatedRank>> make(const ModelConfig& config,
                                                    const TrialOptions& options, int num_pages,
                                                    Ops& ops);

  // Readies a load: as a graph where the device has graphs. Sequences have pages of their own.
  void prepare(const EmulatedLoad& load);
  // Seconds of one pass, the mean of `count` in a row.
  double time(int count);
  // Fills every page: the first by a pass over up to `longest` tokens, the others by copies.
  void fill_cache(std::int64_t longest);

  // Whether made-up weights left the last pass something to compute.
  bool logits_are_numbers();

  std::int64_t weight_bytes() const;
  bool is_graph() const { return graph_ != nullptr; }  // the load in hand

 private:
  EmulatedRank(const ModelConfig& config, const TrialOptions& options, Ops& ops)
      : config_(config), options_(options), ops_(ops), arena_(ops.device()) {}
  Model model();
  void pass();

  const ModelConfig config_;
  const TrialOptions options_;
  Ops& ops_;
  ModelPartition partition_;
  ModelWeights weights_;
  std::optional<KvStore> kv_;
  Activity activity_;
  RopeOnDevice rope_;
  Arena arena_;
  // The load in hand.
  std::optional<Arena::Scope> scope_;
  BatchInputs inputs_;
  Tensor routed_;  // [MoE layers * T, k] i32
  Tensor logits_;  // [sequences, V] f32
  std::unique_ptr<Graph> graph_;
};

}  // namespace glint
