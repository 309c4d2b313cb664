// TrainRanks: the ranks of a layout that train one model, as threads of this process, each with its
// own backend, model, tape and gradients; or one of them, where the others are processes
// (train_peers.h). Numbers of ranks are those in this process, from 0.
//
// The sequences of a call are dealt out among the replicas, or their rows (cp); each adds the
// gradient of its own. Ranks that divide a replica (tp) have its sequences, and parts of the
// gradient of what all of them hold (autograd/tape_comm.h). The gradient of the call is the sum
// over the ranks, which OptimizerPart or sum_gradients() makes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "autograd/tape_comm.h"
#include "base/thread_pool.h"
#include "runtime/ranks.h"
#include "train/gradient_pass.h"
#include "train/parameters.h"
#include "train/train_peers.h"

namespace glint {

class TrainRanks final : public GradientSource {
 public:
  // Loads the model of options.shape, a rank a backend; `opened` as LoadedModel::load() has it. Its
  // packing is ignored: weights are read where they are written. With `peers` that rank alone, on
  // one backend: then all calls but those for one `rank` are collective, and all processes get the
  // same of them.
  static Result<std::unique_ptr<TrainRanks>> open(ModelOptions options,
                                                  std::vector<std::unique_ptr<Backend>> backends,
                                                  const LoadProgress& progress = {},
                                                  std::optional<OpenedModel> opened = {},
                                                  const TrainPeers& peers = {});

  // Gradients of zero, once all weights are where they stay. Before the first add(); one that only
  // scores has none.
  Status make_parameters();

  int size() const { return ranks_.size(); }
  LoadedModel& model(int rank = 0) { return ranks_.model(rank); }
  TapeOps& tape(int rank = 0) { return *parts_[static_cast<std::size_t>(rank)].tape; }
  Parameters& parameters(int rank = 0) {
    return *parts_[static_cast<std::size_t>(rank)].parameters;
  }
  GradientPass& pass(int rank) { return *parts_[static_cast<std::size_t>(rank)].pass; }
  ThreadPool& pool(int rank = 0);
  const MeshShape& shape() const { return ranks_.shape(); }
  const TrainPeers& peers() const { return peers_; }
  Mesh mesh(int rank) { return ranks_.mesh(rank); }
  // All that some rank trains, in the order of the table, and its numbers.
  const std::vector<ModelTensor>& trained() const { return trained_; }
  std::int64_t num_trained() const;

  // work(rank, on_part) of all ranks at once: the error of the first that fails, which makes
  // on_part() false for the others.
  using Work = std::function<Status(int rank, const OnPart& on_part)>;
  Status on_all(const Work& work, const OnPart& on_part = {});

  Status reserve(const BatchShape& most) override;
  int num_batches(std::span<const TrainSequence> sequences, std::int64_t batch_tokens,
                  bool drafts) const;
  int parts_of_batch() const;  // of all stages
  // `on_part` is called by one rank at a time.
  Result<LossSums> add(std::span<const TrainSequence> sequences, const LossTerms& terms,
                       std::int64_t batch_tokens, const OnPart& on_part = {}) override;
  Result<std::vector<TokenScores>> score(std::span<const TrainSequence> sequences,
                                         const ScoreTerms& terms, std::int64_t batch_tokens,
                                         const OnPart& on_part = {}) override;

  // Every rank's gradients become, on the host (Parameters::values_of), the sums over all that hold
  // the parameter, in the order of comm/tree.h.
  void sum_gradients();

  // A rank for people: bytes that it holds, and calls and bytes of its collectives so far.
  Json describe(int rank);

 private:
  struct Part {
    TapeOps* tape = nullptr;
    std::optional<TapeComm> tp = {}, cp = {}, ep = {};  // its groups, as the model sees them
    std::optional<Parameters> parameters = {};
    std::optional<GradientPass> pass = {};
    std::optional<ThreadPool> own_pool = {};  // where the backend has none
  };

  // The sequences of each replica: parts of them, or all, of whose rows each has some.
  std::vector<std::span<const TrainSequence>> dealt_out(
      std::span<const TrainSequence> sequences) const;
  // Whether its losses are the replica's.
  bool speaks(int rank) {
    const ModelPartition& partition = model(rank).partition();
    return partition.tp_rank == 0 && partition.is_last();
  }
  int replica_of(int rank) { return model(rank).partition().replica; }

  TrainRanks(const MeshShape& shape, const TrainPeers& peers)
      : ranks_(peers.is_alone() ? Ranks(shape) : Ranks(shape, peers.rank(), peers.mesh())),
        peers_(peers),
        parts_(static_cast<std::size_t>(ranks_.size())) {}
  // The messages, by replica, of the ranks of whom speaks() is true; `said`: of those here.
  std::vector<std::string> of_replicas(std::vector<std::string> said);

  Ranks ranks_;
  const TrainPeers peers_;
  std::vector<Part> parts_;
  std::vector<ModelTensor> trained_;
};

}  // namespace glint
