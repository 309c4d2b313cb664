// StepTrial: the model's own passes over ops that compute nothing and memory that is only counted:
// what one rank's step takes, and what it costs, before there is a weight.
#pragma once

#include <memory>
#include <optional>

#include "model/expert_tables.h"
#include "model/null_weights.h"
#include "ops/plan_ops.h"
#include "runtime/expert_load.h"
#include "runtime/model_options.h"
#include "runtime/step.h"
#include "runtime/step_memory.h"
#include "tensor/null_device.h"

namespace glint {

struct TrialOptions {
  MeshShape shape = {};
  bool meets = true;  // steps take what it takes to meet the other ranks, too
  int stage = 0;
  std::function<WeightFormat(const ModelTensor&)> format = {};
  bool with_mtp = false;
  NumberFormats numbers = {};
  // The backend whose memory is asked for; null: one whose blocks are compositions, with no memory
  // of its own. Outlives the trial.
  Backend* like = nullptr;
  std::int64_t group_bytes = 0;  // of the device, that a rank takes for each group it belongs to
};

// One pass: `tokens` rows of a replica, as even as it goes over `sequences`, each of which ends at
// `length`.
struct PassShape {
  int tokens = 1, sequences = 1;
  std::int64_t length = 1;
  int logit_rows = 0;   // in all, of the sequences' last rows
  bool routed = false;  // the chosen experts are told
  // On the rank's experts; none: that of the rank which has most, where all replicas run the like.
  std::optional<ExpertLoad> load = {};
};

// The part of a rank of stage `stage`: that of the rank which has most, where it does not come out
// even. Fails with one sentence if the model cannot be divided so.
Result<ModelPartition> partition_of(const ModelConfig& config, const MeshShape& shape, int stage);

class StepTrial {
 public:
  // Fails with one sentence if the model cannot be divided so.
  static Result<std::unique_ptr<StepTrial>> make(const ModelConfig& config,
                                                 const TrialOptions& options);

  // High-water mark of the arena of one pass; costs in ops().
  std::int64_t run(const PassShape& shape);
  std::int64_t run_drafts(const PassShape& shape);
  std::int64_t run_head(int rows);
  std::int64_t run_moves();
  StepMemory memory(const StepLimits& limits);
  // The backend holds what its passes so far take of its own memory. False: there is no room.
  bool reserve_scratch() { return plan_->reserve(); }

  // For passes of the caller's own.
  Model model();
  // `ops` as those of model(), behind what meets the other ranks in these groups, which are those
  // of model() or decorate them; all outlive the result.
  std::unique_ptr<Ops> meeting(std::unique_ptr<Ops> ops, Comm& tp, Comm& cp);
  const PlanOps& ops() const { return *plan_; }
  ModelWeights& weights() { return weights_; }
  const std::vector<ModelTensor>& tensors() const { return weights_.tensors; }
  const ModelPartition& partition() const { return partition_; }

 private:
  StepTrial(const ModelConfig& config, const TrialOptions& options);
  Batch batch_of(const PassShape& shape, Arena& arena);
  // The batch of such a pass, on the rank that has most to do.
  Assume assume(const PassShape& shape);

  const ModelConfig config_;
  const TrialOptions options_;
  ModelPartition partition_, meeting_;  // the latter as it meets other ranks
  NullDevice device_;
  ModelWeights weights_;
  std::unique_ptr<Comm> tp_, cp_, ep_, pp_;
  PlanOps* plan_ = nullptr;
  std::unique_ptr<Ops> ops_;  // plan_, and in front what meets
  std::optional<ExpertTables> expert_tables_;
  std::optional<KvStore> kv_;
  Activity activity_;
};

}  // namespace glint
