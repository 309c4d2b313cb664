// Parameters: what is trained of a loaded model, and its gradients.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/tape_ops.h"
#include "comm/comm.h"
#include "model/weights.h"
#include "train/train_peers.h"

namespace glint {

// One tensor of the table (model/tensor_table.h) that is trained: a vector, a matrix, a layer's
// experts, or kv_b_proj, which is trained as its two halves a head.
struct Parameter {
  ModelTensor tensor = {};
  // f32, dense, on the device: [cols], [rows, cols] or [experts, rows, cols]; of kv_b_proj d(w_uk)
  // [heads, latent, nope] and d(w_uv) [heads, v, latent].
  Tensor gradient = {};
  Tensor gradient_of_values = {};  // the latter
  std::int64_t offset = 0;         // where it begins in Parameters::padded(), in numbers

  std::int64_t count() const {
    return gradient.size() + (gradient_of_values ? gradient_of_values.size() : 0);
  }
  bool is_kv_b() const { return static_cast<bool>(gradient_of_values); }
};

// Parameters that the same ranks have, one after another, each rank with one of `shares` equal
// shares of their numbers: zeros behind the last make them equal.
struct ParameterSection {
  // All ranks of a stage have it, or those of a replica divide it, or each has other experts of it
  // (train/parameter_part.h), or it is another stage's, which has the only share.
  enum class Kind { kWhole, kDivided, kExperts, kBorrowed };
  Kind kind = Kind::kWhole;
  std::int64_t offset = 0, count = 0;  // numbers before it and of it
  std::int64_t share = 0;              // numbers of a share
  int shares = 1;

  std::int64_t padded() const { return share * shares; }
};

class Parameters {
 public:
  // Gradients of zero for all that is trained of `weights`, the part of `partition`, known to
  // `tape`. Fails if a weight is neither f32 nor bf16, and if there is no memory for 4 bytes a
  // parameter of all peers.
  static Result<Parameters> make(ModelWeights& weights, TapeOps& tape,
                                 const ModelPartition& partition = {},
                                 const TrainPeers& peers = {});

  const std::vector<Parameter>& all() const { return all_; }
  // Null: `tensor` is not among them, as on another stage.
  const Parameter* find(const ModelTensor& tensor) const;
  // By their kinds.
  const std::vector<ParameterSection>& sections() const { return sections_; }
  std::int64_t count() const;  // numbers
  std::int64_t bytes() const { return padded_ * static_cast<std::int64_t>(sizeof(float)); }
  void set_zero();
  // Stage `to` borrows the embedding of this one.
  void lend(int to) { lent_to_ = to; }
  // Collective over such stages: the gradient of the one that lends becomes the sum of both, in the
  // order of stages.
  void add_borrowed(Comm& pp);
  // The other gets what stands in its place.
  void give_borrowed(Comm& pp);
  // Brings the gradients to the host, where they are on another device.
  void fetch();
  // All sections, one after another, as they are on the host: where passes add to them, or as of
  // the last fetch().
  std::span<float> padded();
  std::span<float> values_of(const Parameter& p) {
    return padded().subspan(static_cast<std::size_t>(p.offset),
                            static_cast<std::size_t>(p.count()));
  }
  // The numbers alone, where ranks divide nothing.
  std::span<float> flat();

 private:
  Parameters() = default;

  std::vector<Parameter> all_;
  std::unordered_map<std::string, std::size_t> place_of_;
  std::vector<ParameterSection> sections_;
  std::int64_t padded_ = 0;
  int lent_to_ = -1;
  Device* device_ = nullptr;
  Buffer memory_;
  Buffer fetched_;  // pinned; none where the device is the host
};

}  // namespace glint
