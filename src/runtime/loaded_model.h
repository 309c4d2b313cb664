// LoadedModel: a checkpoint on a device, ready to run steps.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/step_plan.h"
#include "model/glm.h"
#include "model/place_weights.h"
#include "model/release.h"
#include "tensor/arena.h"

namespace glint {

struct ModelOptions {
  std::string dir;  // of the checkpoint
  // Synthetic weights in memory, as such a release has them, instead of the checkpoint's files;
  // then `dir` may also be the path of a config.json.
  std::optional<Release> dummy = {};
  DType activations = DType::kBF16;
  LatentFormat latent = LatentFormat::kBF16;
  IndexFormat index = IndexFormat::kFp8;
  bool with_mtp = false;  // false also when the checkpoint has no MTP layer
  Packing packing = Packing::kIfRoom;
};

// What loading took: from opening the files until the first step can run.
struct LoadStats {
  double seconds = 0;
  std::int64_t bytes = 0;          // of the checkpoint's tensors
  std::vector<std::string> files;  // that hold them; empty for synthetic weights
  Placement placement = {};
};

// Logits of the rows that a plan asked for, in plan order, on the host; and the final hidden states
// on the device.
struct StepOutput {
  std::span<const float> logits;  // [R, V]; valid until the next pass
  Tensor hidden;                  // [T, hidden]; valid until the next step (not draft)
  std::int64_t vocab = 0;

  std::span<const float> row(std::int64_t r) const { return logits.subspan(r * vocab, vocab); }
};

// What a draft does with the keys that the MTP layer's indexer selects.
struct DraftOptions {
  bool keep_selected = false;  // remember those of the last row
  bool reuse_selected =
      false;  // use the remembered ones for this one-row plan instead of selecting
};

class LoadedModel {
 public:
  // Fails with one sentence if the files are wrong or if `ops` cannot run the model.
  static Result<std::unique_ptr<LoadedModel>> load(const ModelOptions& options,
                                                   std::unique_ptr<Ops> ops,
                                                   const LoadProgress& progress = {});

  const ModelConfig& config() const { return config_; }
  const GenerationConfig& generation() const { return generation_; }
  const ModelOptions& options() const { return options_; }
  const LoadStats& load_stats() const { return load_stats_; }
  Ops& ops() { return *ops_; }
  const ModelWeights& weights() const { return weights_; }
  bool has_mtp() const { return !weights_.mtp.empty(); }

  // Makes a cache of `num_pages` pages; whatever an earlier one held is gone. Call it before the
  // first step.
  Status reserve_pages(int num_pages);
  KvStore& kv() { return *kv_; }

  // Runs the plan through the model.
  StepOutput step(const StepPlan& plan, const LayerTap* tap = nullptr);

  // Runs rows through the MTP layer: `plan` holds the positions, and as tokens each row's *next*
  // token; `target` [T, hidden] is the hidden state of each row.
  StepOutput draft(const StepPlan& plan, const Tensor& target, DraftOptions options = {});

 private:
  LoadedModel(ModelOptions options, std::unique_ptr<Ops> ops);
  void count_files();
  std::span<const float> to_host(const Tensor& logits);
  Model model() { return {*ops_, {comm_}, config_, weights_, *kv_, options_.activations}; }

  ModelOptions options_;
  LoadStats load_stats_;
  std::unique_ptr<Ops> ops_;
  SelfComm comm_;
  ModelConfig config_;
  GenerationConfig generation_;
  std::unique_ptr<Checkpoint> checkpoint_;
  ModelWeights weights_;
  std::vector<float> inv_freq_;
  std::optional<KvStore> kv_;
  // A step's results live in step_scope_, which the next step closes; drafts the same inside it.
  Arena step_arena_, draft_arenas_[2];
  std::optional<Arena::Scope> step_scope_, draft_scopes_[2];
  int next_draft_ = 0;  // two arenas in turn: a draft's input may be the draft before
  Tensor kept_selected_ = {};
  Buffer kept_buffer_;
  std::vector<float> host_logits_;
};

// Fails, naming the first id that is not in the model's vocabulary.
Status check_vocabulary(const LoadedModel& model, std::span<const TokenId> ids);

}  // namespace glint
