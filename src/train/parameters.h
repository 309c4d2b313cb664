// Parameters: what is trained of a loaded model, and its gradients.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "autograd/tape_ops.h"
#include "model/weights.h"

namespace glint {

// One tensor of the table (model/tensor_table.h) that is trained: a vector, a matrix, a layer's
// experts, or kv_b_proj, which is trained as its two halves a head.
struct Parameter {
  ModelTensor tensor = {};
  // f32, dense, on the device: [cols], [rows, cols] or [experts, rows, cols]; of kv_b_proj d(w_uk)
  // [heads, latent, nope] and d(w_uv) [heads, v, latent].
  Tensor gradient = {};
  Tensor gradient_of_values = {};  // the latter
  std::int64_t offset = 0;         // numbers before it, among all that are trained

  std::int64_t count() const {
    return gradient.size() + (gradient_of_values ? gradient_of_values.size() : 0);
  }
  bool is_kv_b() const { return static_cast<bool>(gradient_of_values); }
};

class Parameters {
 public:
  // Gradients of zero for all that is trained of `weights`, known to `tape`. Fails if a weight is
  // neither f32 nor bf16, and if there is no memory for 4 bytes a parameter. Several ranks that
  // train the same parameters have one of `shares` shares of them each.
  static Result<Parameters> make(ModelWeights& weights, TapeOps& tape, int shares = 1);

  const std::vector<Parameter>& all() const { return all_; }
  std::int64_t count() const { return count_; }  // numbers
  std::int64_t bytes() const { return padded_ * static_cast<std::int64_t>(sizeof(float)); }
  void set_zero();
  // Brings the gradients to the host, where they are on another device.
  void fetch();
  // All gradients, one after another, as they are on the host: where passes add to them, or as of
  // the last fetch().
  std::span<float> flat();
  // The same, with zeros behind it that make its shares equal; and the numbers of a share.
  std::span<float> padded();
  std::int64_t share() const { return padded_ / shares_; }

 private:
  Parameters() = default;

  std::vector<Parameter> all_;
  std::int64_t count_ = 0, padded_ = 0;
  int shares_ = 1;
  Device* device_ = nullptr;
  Buffer memory_;
  Buffer fetched_;  // pinned; none where the device is the host
};

}  // namespace glint
