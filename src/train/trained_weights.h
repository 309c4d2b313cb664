// TrainedWeights: a checkpoint's weights in the host's memory, which is written to, in the formats
// of its files. A model on the host reads them where they lie; others take them over (place(),
// LoadedModel::update_weights).
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/shard.h"
#include "runtime/loaded_model.h"
#include "train/parameters.h"
#include "train/train_peers.h"

namespace glint {

class ThreadPool;

class TrainedWeights {
 public:
  // Copies the weights of the files that `model` was loaded from, with Packing::kNever, and on the
  // host makes it read the copies. Other ranks' models of the same files take checkpoint() over,
  // and read them too; columns that a rank cuts it has as its own. Where `peers` are processes each
  // has all, and writes all of its part, whoever else has it. Fails where a weight is neither f32,
  // f16 nor bf16, and where there is no memory for those of all peers.
  static Result<TrainedWeights> make(LoadedModel& model, const TrainPeers& peers = {});

  // Rounds `values`, a parameter's of `model` in the order of its gradient, to the weights'
  // formats. Of the ranks that have the same part one writes it here; on the host each writes what
  // it has as its own: cut columns, and kv_b_proj's transposed half. Ranks may write at the same
  // time.
  void write(const Parameter& parameter, std::span<const float> values, LoadedModel& model,
             ThreadPool& pool);
  // The same of a whole tensor, in the order of the checkpoint.
  void write(const ModelTensor& tensor, std::span<const float> whole, ThreadPool& pool);
  // Where `model` is on another device, it takes over what was written.
  Status place(LoadedModel& model) const;
  // All of a tensor as f32, in the order of the checkpoint; and of a parameter that is not divided
  // in the order of its gradient.
  std::vector<float> read(const ModelTensor& tensor, ThreadPool& pool) const;
  void read(const Parameter& parameter, std::span<float> values, ThreadPool& pool) const;

  // The same weights in memory of its own; and again as they are in `other`, of which this is a
  // copy. Who reads them takes them over anew then.
  Result<TrainedWeights> copy() const;
  void take(const TrainedWeights& other);

  // All tensors of the checkpoint, as views: names, formats and order of the files to write.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  std::vector<TensorSpec> specs() const;
  // The same for another model's update_weights. Lives as long as this.
  Checkpoint checkpoint() const;

 private:
  void write_copies(const Parameter& parameter, std::span<const float> values, LoadedModel& model,
                    ThreadPool& pool) const;

  std::string name_;
  Buffer memory_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string, std::size_t> first_;  // ModelTensor::name: its first copy
  bool belong_to_one_rank_ = false;
};

}  // namespace glint
