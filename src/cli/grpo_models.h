// The models of a `glint train grpo` run: the one that learns, the engine that answers, and where a
// run has them a reference, and a copy of the weights that answer while others learn.
//
// All lie on the ranks that train, a part on each. But where these are processes and the engine
// answers while they train, it is the first one's alone, with all weights.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/thread_pool.h"
#include "cli/external_engines.h"
#include "cli/grpo_options.h"
#include "cli/rollout_files.h"
#include "runtime/rank_threads.h"
#include "train/trainer.h"

namespace glint {

class GrpoModels {
 public:
  GrpoModels(const GrpoCommandOptions& options, const TrainPeers& peers, Cli& cli)
      : options_(options), peers_(peers), cli_(cli) {}
  // Files that the ranks of the run alone have read go.
  ~GrpoModels();
  GrpoModels(const GrpoModels&) = delete;

  // Loads the model in `dir`, whose files are opened; `restore` also what a checkpoint there has of
  // a run, whose state it returns. Then open_reference(), and open_engine() after the state was
  // looked at. All are collective.
  Result<Json> open(const std::string& dir, OpenedModel opened, bool restore);
  // Weights that a run that was killed has left in its folder, for engines of other processes, go.
  void remove_left_files() const { RolloutFiles(rollout_folder(), {}).remove_all(); }
  // The model in `dir`, where the loss has a KL. The checksum of its weights; empty: there is none.
  Result<std::string> open_reference(const std::string& dir);
  // `goes_on`: false ends the waiting for servers.
  Status open_engine(std::function<bool()> goes_on);

  Trainer& trainer() { return *trainer_; }
  // Here or elsewhere; on the first process, within its work of on_engine().
  RolloutEngine& rollouts() { return *rollouts_; }
  TrainRanks* reference() { return reference_.get(); }
  // A pass of the weights that the engine has, if those that learn are others meanwhile.
  TrainRanks* answering() { return answering_.get(); }

  // The engine takes over the weights that have learned. Not while it answers; collective.
  Status update_engine();
  // The outcome of work that only the first process does, as TrainPeers has it, which has the
  // engine answer.
  Status on_engine(const std::function<Status()>& work);
  Result<std::string> on_engine_text(const std::function<Result<std::string>()>& work);

 private:
  // The trained model with other weights than its files'.
  OpenedModel with_trained(Checkpoint weights);
  // The model of `opened` on the ranks that train, to score alone.
  Result<std::unique_ptr<TrainRanks>> open_scorer(const std::string& dir, OpenedModel opened);
  Status open_answering();
  Result<Checkpoint> engine_weights();
  // Whether the engine answers here while ranks train, and whether every rank that trains has one
  // of its own.
  bool answers_beside() const { return options_.async_rollout && !options_.is_elsewhere(); }
  bool is_over_all() const { return !options_.async_rollout && !options_.is_elsewhere(); }
  bool is_over_processes() const { return is_over_all() && !peers_.is_alone(); }
  MeshShape engine_shape() const;
  Status load_engine();
  Packing packing(std::int64_t keep_free) const;
  Status load_ranks(ModelOptions one);
  Status open_servers(std::function<bool()> goes_on);
  std::string rollout_folder() const { return options_.save + "/rollout-weights"; }
  std::optional<Recipe> recipe() const;
  Status settle_files();
  Status take_copy();
  Status take_weights();
  // The others' part of on_engine(), and the first one's.
  void follow_engine();
  class Session;

  const GrpoCommandOptions& options_;
  const TrainPeers& peers_;
  Cli& cli_;
  RunOptions running_;
  ModelOptions resolved_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<TrainedWeights> copy_;  // that the engine and answering_ read
  std::unique_ptr<TrainRanks> reference_, answering_;
  std::optional<ThreadPool> pool_;            // of the quantiser
  std::optional<RolloutFiles> files_;         // where other processes read the weights
  std::unique_ptr<Ranks> engine_;             // reads what is not packed where it was written
  std::optional<RankThreads> followers_;      // of its first rank, those that are threads
  std::unique_ptr<ExternalEngines> servers_;  // that answer in its place
  std::unique_ptr<RolloutEngine> here_;
  RolloutEngine* rollouts_ = nullptr;
};

}  // namespace glint
