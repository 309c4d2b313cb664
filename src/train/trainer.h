// Trainer: a model that learns. Weights, their f32 masters, the optimiser, and checkpoints of all
// of it: what every way of training shares. The gradients' source is the caller's.
//
//   auto trainer = Trainer::open({.model = ..., .adamw = ...}, std::move(backend)).value();
//   trainer->pass().add(sequences, terms, batch_tokens);  // as often as wanted
//   trainer->step(learning_rate);                         // and again
//   trainer->save("out", state);                          // out/step-1
//
// A run's directory holds step-N/, each a complete checkpoint in the format it was loaded from with
// an optimizer/ folder beside it, and latest_checkpointed_iteration.txt, written last, which names
// the newest.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/other_files.h"
#include "train/optimizer_part.h"
#include "train/train_ranks.h"
#include "train/trained_weights.h"

namespace glint {

struct TrainerOptions {
  ModelOptions model = {};
  AdamWOptions adamw = {};
  // Where the other ranks are processes: the calls that follow are collective then, weights() are
  // this process's part, and files are the first's.
  TrainPeers peers = {};
  // The first has room for the weights of all, of which those that others train are as they were
  // loaded, until gather_weights().
  bool gathers = false;
};

struct StepReport {
  std::int64_t step = 0;  // that is done, from 1
  double lr = 0;
  double grad_norm = 0;  // before clipping
  bool is_clipped = false;
};

class Trainer {
 public:
  // Loads the model on each of the shape's ranks in this process, a backend each. Weights lie in
  // its memory once. A rank takes 4 bytes a trained parameter of its part, for gradients, and of
  // the optimiser's 12 bytes its share. Fails where a trained weight is neither bf16 nor f32, and
  // where memory does not suffice.
  static Result<std::unique_ptr<Trainer>> open(TrainerOptions options,
                                               std::vector<std::unique_ptr<Backend>> backends,
                                               const LoadProgress& progress = {},
                                               std::optional<OpenedModel> opened = {});
  static Result<std::unique_ptr<Trainer>> open(TrainerOptions options,
                                               std::unique_ptr<Backend> backend,
                                               const LoadProgress& progress = {});

  // The first rank's.
  LoadedModel& model() { return ranks_->model(); }
  Parameters& parameters() { return ranks_->parameters(); }
  const TrainedWeights& weights() const { return *weights_; }
  TrainRanks& ranks() { return *ranks_; }
  GradientSource& pass() { return *ranks_; }
  std::int64_t steps_done() const { return steps_; }

  // Applies the gradients that were added since the last step, and sets them to zero. Vectors
  // (norms) do not decay. What caches hold is of the old weights then. Fails, with weights as they
  // were and gradients zero, if a gradient is no number.
  Result<StepReport> step(double lr);

  // Before steps whose checkpoint would find no room: removes what saves that were cut off left in
  // `run_dir`, and fails if one checkpoint more does not fit there, or if a file that checkpoints
  // get from the model's folder cannot be read.
  Status make_room(const std::string& run_dir);

  // Writes RUN/step-N: beside its name first, synced, renamed; then the tracker. `state` is the
  // caller's (data position, options, ...), given back by restore(). A failure, as of a full disk,
  // leaves what was there before, and can be tried again.
  Status save(const std::string& run_dir, const Json& state);

  // Writes the model alone: `dir` appears when it is complete and on disk.
  Status save_weights(const std::string& dir);

  // The checkpoint that a run's tracker names or, without a tracker, the newest; nothing if there
  // is none. Fails on a tracker that names what is not there.
  static Result<std::optional<std::string>> find_latest(const std::string& run_dir);

  // Takes up where save() left off; the model was loaded from the same `checkpoint_dir`. Fails if
  // its weights are not those of the optimiser's state.
  Result<Json> restore(const std::string& checkpoint_dir);

  // The weights of the first process, which has room for them, become those of all ranks, for
  // others than those that train.
  void gather_weights();
  // Where the last stage has the embedding for a draft layer that is not trained, it becomes the
  // first one's.
  void give_embedding() { weights_->give_embedding(*ranks_->mesh(0).pp); }

  // Each rank for people: what it holds, also of a `reference`, and its collectives so far.
  Json describe_ranks(TrainRanks* reference = nullptr);

 private:
  explicit Trainer(TrainerOptions options) : options_(std::move(options)) {}
  // The outcome of the first process's write(), which needs the first `count` of next_whole().
  Status write_on_first(std::size_t count, const std::function<Status()>& write);
  Status read_files();
  Status write_checkpoint(const std::string& run_dir, const Json& state);
  // The files of a checkpoint, in which `of_others` writes what this process has a part of, if any,
  // and other files.
  Status write_files(const std::string& dir,
                     const std::function<Status(const CheckpointWriter&)>& of_others);
  Status write_optimizer(const std::string& dir, const Json& state, const CheckpointWriter& writer);
  Status read_optimizer(const std::string& checkpoint_dir);
  // All of a tensor in the order of the checkpoint, of every rank's shares, for the first process;
  // and back.
  std::span<const float> whole_of(OptimizerPart::Value value, const ModelTensor& tensor);
  // whole_of() each tensor of each value, one after another.
  std::span<const float> next_whole();
  void give_out(OptimizerPart::Value value, const ModelTensor& tensor,
                std::span<const float> whole);
  // The weights of all ranks become these masters.
  void write_weights(const ModelTensor& tensor, std::span<const float> whole);
  // f(rank, parameter, its part of `whole` in the order of its gradient) for each that has one.
  template <class F>
  void for_parts(const ModelTensor& tensor, std::span<const float> whole, F f);

  TrainerOptions options_;
  std::string source_dir_;  // checkpoints get its other files as well
  std::string config_file_ = {};
  OtherFiles other_files_ = {};
  std::unique_ptr<TrainRanks> ranks_;
  std::optional<TrainedWeights> weights_;
  std::vector<OptimizerPart> optimizer_;  // of each rank
  std::vector<float> whole_;  // of whole_of(): where one rank has all, ahead of the first step
  std::int64_t steps_ = 0;
  std::size_t wholes_ = 0;  // that next_whole() has given of the checkpoint that is written
  std::string saved_;       // the last one
};

}  // namespace glint
