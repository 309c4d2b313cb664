// Ranks of a command that trains, each with a part of the work: threads of its process, or
// processes (train_processes.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/rank_options.h"
#include "train/train_peers.h"

namespace glint {

struct TrainLayoutOptions : LayoutOptions {
  int decoder_last_pipeline_num_layers = 0;

  template <class Visitor>
  void visit(Visitor&& v) {
    visit_sizes(v,
                {.tp = "ranks of a replica, which divide heads, inner rows, experts and "
                       "vocabulary, and their gradients",
                 .pp = "stages of layers, each with --tp or --dp ranks; --batch-tokens go "
                       "through them at a time, one batch forward, one back (1F1B)",
                 .dp = "replicas that share the sequences of an update; each has an Nth of the "
                       "optimiser's state (ZeRO-1)",
                 .ep = "ranks that share the routed experts, each expert on one of them: all "
                       "of a stage; without --dp and --tp, as many replicas",
                 .cp = "replicas that share each sequence, of which each runs some rows; without "
                       "--dp, as many replicas, else groups of N"});
    v("decoder-last-pipeline-num-layers=N", decoder_last_pipeline_num_layers,
      "layers of the last stage, which has the head and the drafts' layer, too (default: stages "
      "are even)");
  }
  MeshShape shape() const {
    MeshShape shape = LayoutOptions::shape();
    shape.last_stage_layers = decoder_last_pipeline_num_layers;
    return shape;
  }
};

// Options and backends of a layout's ranks.
struct LaidOutRanks {
  ModelOptions model = {};   // of any rank: with the shape, and a rank's threads
  std::string backend = {};  // its name
  std::vector<std::unique_ptr<Backend>> backends = {};
};
// The backend of all ranks, each of which chose "cpu" or "cuda" by its own machine. Fails where
// they differ.
Result<std::string> common_backend(const std::vector<std::string>& of_ranks);
// Fails on a layout that is not built.
Status check_layout(const MeshShape& shape);
// Backends of the ranks in this process: of all, or with `peers` of one. Fails on a layout that is
// not built, and where there are fewer threads, or GPUs, than ranks in it.
Result<LaidOutRanks> lay_out(const MeshShape& shape, const RunOptions& how,
                             const ModelOptions& resolved, const Cli& cli,
                             const TrainPeers& peers = {});

// The ranks of to_json(), TrainRanks::describe() and more, a line each: what they hold, and the
// calls and bytes of their collectives. Of one rank nothing.
std::string ranks_text(const Json& ranks);

}  // namespace glint
