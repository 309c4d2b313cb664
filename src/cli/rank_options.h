// Options of commands that run a model over ranks, and how they become ranks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "cli/model_options.h"
#include "runtime/ranks.h"

namespace glint {

struct RankOptions {
  int tp = 1, reduce_slices = 0;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Ranks");
    v("tp=N", tp,
      "ranks that divide heads, inner rows, experts and vocabulary; more than the checkpoint or "
      "the threads carry become the most that they do");
    v("reduce-slices=N", reduce_slices,
      "slices that sums of products are cut in, also on one rank: the same bits for every --tp "
      "that N is a multiple of, by a power of two (default: --tp)");
  }
};

struct FittedShape {
  MeshShape shape = {};
  std::string note = {};  // "tp 8 -> 4: the checkpoint has 4 heads"; empty: as it was asked for
};

// The layout that the options ask for, with no more ranks than the model can be divided among and
// than there are threads.
Result<FittedShape> fit_shape(const RankOptions& options, const ModelConfig& config, int threads);

// Fails where ranks or slices are asked for of a backend, or of weights, that cannot have them.
Status check_ranks(const MeshShape& shape, const RunOptions& options, const ModelOptions& resolved);

// Every rank's model, on the host, with its share of the threads. `opened`: the checkpoint of
// `resolved.dir`, if it has been looked at already.
Result<std::unique_ptr<Ranks>> load_ranks(const MeshShape& shape, const RunOptions& options,
                                          const ModelOptions& resolved, Cli& cli,
                                          std::optional<Checkpoint> opened = {});

// Each rank's part of the model, bytes of weights, and traffic of its collectives so far. From any
// thread.
Json to_json(Ranks& ranks);

}  // namespace glint
