// TrainedWeights: a checkpoint's weights, or a rank's part of them, in the host's memory, which is
// written to, in the formats of its files. A model on the host reads them where they lie; others
// take them over (place(), LoadedModel::update_weights).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/writer.h"
#include "runtime/loaded_model.h"
#include "train/parameter_part.h"
#include "train/parameters.h"
#include "train/train_peers.h"

namespace glint {

class ThreadPool;

class TrainedWeights {
 public:
  // Copies the weights of the files that `model` was loaded from, with Packing::kNever, and on the
  // host makes it read the copies. Other ranks' models of the same files take checkpoint() over,
  // and read them too; columns that a rank cuts it has as its own. Where `peers` are processes each
  // has its rank's part alone, or, `whole`, room for those of the others, and writes all of its
  // part, whoever else has it. Fails where a weight is neither f32, f16 nor bf16, and where there
  // is no memory for those of all peers.
  static Result<TrainedWeights> make(LoadedModel& model, const TrainPeers& peers = {},
                                     bool whole = false);

  // Rounds `values`, a parameter's of `model` in the order of its gradient, to the weights'
  // formats. Of the ranks that have the same part one writes it here; on the host each writes what
  // it has as its own: cut columns, and kv_b_proj's transposed half. Ranks may write at the same
  // time.
  void write(const Parameter& parameter, std::span<const float> values, LoadedModel& model,
             ThreadPool& pool);
  // Writes a whole tensor, in the order of the checkpoint, where this process has all of it.
  void write(const ModelTensor& tensor, std::span<const float> whole, ThreadPool& pool);
  // The last stage, where it has the embedding for a draft layer that is not trained, gets the
  // first one's. Collective over the stages.
  void give_embedding(Comm& pp);
  // Where `model` is on another device, it takes over what was written.
  Status place(LoadedModel& model) const;
  // All that is here of a tensor as f32, in the order of the checkpoint; and of a parameter that
  // `partition` has in the order of its gradient.
  std::vector<float> read(const ModelTensor& tensor, ThreadPool& pool) const;
  void read(const Parameter& parameter, const ModelPartition& partition, std::span<float> values,
            ThreadPool& pool) const;

  // The same weights in memory of its own; and again as they are in `other`, of which this is a
  // copy. Who reads them takes them over anew then.
  Result<TrainedWeights> copy(const TrainPeers& peers = {}) const;
  void take(const TrainedWeights& other);

  // The tensors of the files to write; and the memory of all that is here.
  const std::vector<TensorSpec>& specs() const { return specs_; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.bytes()); }
  // Writes a tensor that becomes `whole`, rounded; and all but such, `saved`.
  Status save(const CheckpointWriter& writer, const ModelTensor& tensor,
              std::span<const float> whole, ThreadPool& pool) const;
  Status save_others(const CheckpointWriter& writer, std::span<const ModelTensor> saved);
  // For another model's update_weights, of the same rank where a part is here. Lives as long as
  // this.
  Checkpoint checkpoint() const;

 private:
  // A tensor of the table: the part of it that is here, and the number of its first copy.
  struct Entry {
    ModelTensor tensor;
    ParameterBox box;
    std::size_t first = 0;
  };
  // Numbers of a rank's part that lie together.
  struct Piece {
    std::byte* at = nullptr;
    StoredType type = StoredType::kF32;
    std::int64_t in_part = 0, count = 0;
  };
  const Entry& entry_of(const ModelTensor& tensor) const {
    return table_[place_of_.at(tensor.name)];
  }
  std::byte* at(std::size_t tensor) const;
  Status find(const ModelConfig& config, Checkpoint& checkpoint);
  std::size_t lay_out(std::byte* begin);
  Status allocate(const TrainPeers& peers);
  Status fill(Checkpoint& checkpoint);
  std::vector<Piece> pieces_of(const ModelTensor& tensor, const ModelPartition& partition) const;
  static void to_floats(const Piece& piece, std::span<float> part, ThreadPool& pool);
  void write_copies(const Parameter& parameter, std::span<const float> values, LoadedModel& model,
                    ThreadPool& pool) const;

  std::string name_;
  std::optional<ModelPartition> part_;  // the part in this process; none: all
  std::optional<Checkpoint> files_;     // of the others
  Buffer memory_;
  std::vector<Entry> table_;
  std::unordered_map<std::string, std::size_t> place_of_;  // ModelTensor::name: in the table
  std::vector<TensorSpec> specs_;
  std::vector<StoredTensor> tensors_;  // of those that are not here the bytes are empty
  bool belong_to_one_rank_ = false;
};

}  // namespace glint
