// A server before its weights are loaded: what its options, its checkpoint and its machine come to.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "cli/model_options.h"
#include "cli/rank_env.h"
#include "cli/serve_plan.h"
#include "runtime/step_graphs.h"

namespace glint {

struct ServerSetup {
  std::optional<RankEnv> launch = {};  // if a launcher started this process
  ModelOptions model = {};
  OpenedModel opened = {};
  std::optional<Release> release = {};  // of weights that no file here holds
  ServeFacts facts = {};
  BackendOptions rank = {};  // each rank's
  std::unique_ptr<Backend> backend = nullptr;
  GraphSizes graphs = {};
  ServePlan plan = {};

  // Whether another process of the launch serves.
  bool follows() const { return launch && launch->rank > 0; }
  // The formats of weights as they are stored, or as they will be generated or fetched.
  std::function<WeightFormat(const ModelTensor&)> formats();
};

// The model's facts without its memory, and the ranks: all that a process which follows needs.
// Refuses numbers that no server can have.
Result<ServerSetup> open_setup(const ServeOptions& options, std::optional<RankEnv> launch,
                               Cli& cli);
// The backend, the memory and the plan, of one that serves.
Status complete_setup(const ServeOptions& options, const TranslatedArgs& given, ServerSetup& setup,
                      Cli& cli);

}  // namespace glint
