// Ranks of a command that trains: threads of its process, each with a part of the work.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/model_options.h"

namespace glint {

struct TrainLayoutOptions {
  int dp = 1;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Ranks");
    v("dp=N", dp,
      "ranks, as threads of this process, that share the sequences of an update: each has the "
      "weights and gradients, and an Nth of the optimiser's state (ZeRO-1)");
  }
};

// Options and backends of a layout's ranks.
struct TrainLayout {
  ModelOptions model = {};  // of any rank: with the shape, and a rank's threads
  std::vector<std::unique_ptr<Ops>> backends = {};
};
// Fails where there are fewer threads than ranks.
Result<TrainLayout> lay_out(const TrainLayoutOptions& layout, const RunOptions& how,
                            const ModelOptions& resolved, const Cli& cli);

// The ranks of to_json(), TrainRanks::describe() and more, a line each: what they hold, and the
// calls and bytes of their collectives. Of one rank nothing.
std::string ranks_text(const Json& ranks);

}  // namespace glint
