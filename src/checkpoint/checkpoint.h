// Checkpoint: weights by name, whatever format each one is stored in.
//
// The format of every matrix is decided by its own tensors, never by what config.json claims about
// quantisation: mixtures are ordinary. Understood are
//   bf16, f32    X.weight; F16 becomes f32, exactly, in a copy of twice its size
//   fp8          X.weight F8_E4M3 and X.weight_scale_inv or X.weight_scale: one per 128x128 block,
//                or one number for all blocks; one per row becomes f32, exactly, in a copy of four
//                times its size
//   nvfp4        X.weight U8, X.weight_scale, X.weight_scale_2                    (ModelOpt)
//                X.weight_packed, X.weight_scale, X.weight_global_scale = 1/scale_2
//                                                                                 (compressed-tensors)
// and experts stacked in one bf16, f32, F16 or fp8 tensor.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/tensor_source.h"
#include "tensor/weight.h"

namespace glint {

// The tensor that may hold a routed expert's weight, as HF >= 5 stacks them: of
// "P.mlp.experts.E.up_proj" it is "P.mlp.experts.gate_up_proj". Empty for other weights.
std::string stack_of_experts(std::string_view name);

// Views point into the mapped files wherever they can. What they cannot (F16, block scales in bf16,
// elements at odd addresses) is copied into memory that the checkpoint owns. All views live as
// long as the checkpoint. Not thread-safe: one thread asks for views, any number may read them.
class Checkpoint {
 public:
  // Opens a directory: see SafetensorsSource.
  static Result<Checkpoint> open(const std::string& dir);
  explicit Checkpoint(std::shared_ptr<const TensorSource> source) : source_(std::move(source)) {}
  // The same files, which are not opened again, with copies of its own: for another thread.
  Checkpoint again() const { return Checkpoint(source_); }

  // Memory for all weights that are not views; and why there are any, up to "which takes".
  std::int64_t bytes_of_copies() const;
  std::string why_copies() const;
  // Fails if so much is not free. To be asked before weights are, since the kernel grants more
  // memory than there is and kills who uses it.
  Status expect_room_for_copies() const;

  // The tensor that holds the elements or codes of weight(name, ..), maybe those of all experts of
  // its layer; null if there is none.
  const StoredTensor* stored_weight(std::string_view name) const;
  // True if weight(name, ..) or vector(name, ..) can find it.
  bool has_weight(std::string_view name) const { return stored_weight(name) != nullptr; }
  bool has(std::string_view name) const { return source_->find(name) != nullptr; }

  // The matrix [rows, cols] of the linear layer `name`, which has no ".weight":
  // "model.layers.3.self_attn.q_a_proj". "...mlp.experts.E.gate_proj", "up_proj" and "down_proj"
  // are also found in the stacked tensors "...mlp.experts.gate_up_proj" [E, 2 * rows, cols] (gate
  // rows first) and "down_proj".
  Result<Weight> weight(const std::string& name, std::int64_t rows, std::int64_t cols);

  // The format of weight(), which is checked as there, by headers and single numbers alone.
  Result<WeightFormat> format(const std::string& name, std::int64_t rows, std::int64_t cols);

  // The f32 or bf16 vector [size] of that full name ("...input_layernorm.weight").
  Result<Tensor> vector(std::string_view name, std::int64_t size);
  // The vector as f32, whatever it is stored as.
  Result<Tensor> vector_f32(std::string_view name, std::int64_t size);

  // Frees the copies; views that were handed out are dead. For callers that only check.
  void release_copies() { owned_.clear(); }

  const TensorSource& source() const { return *source_; }

 private:
  using Shape = std::vector<std::int64_t>;

  bool becomes_f32(const StoredTensor& tensor) const;
  Result<Weight> dense(const StoredTensor& data, const std::string& name, const Shape& shape);
  Result<Weight> fp8(const StoredTensor& data, const std::string& name, const Shape& shape);
  // Scales [grid] of an FP8 matrix, as f32: stored so, or as ModelOpt does it: [rows, 1, cols, 1],
  // or one number, which is that of every block.
  Result<Tensor> block_scales(const StoredTensor& stored, const Shape& grid);
  // Codes with a scale for each row, as f32: no kernel multiplies such.
  Tensor expand_rows(const Tensor& codes, const Tensor& scales);
  Result<Weight> nvfp4(const StoredTensor& data, const std::string& name, const Shape& shape);
  Result<Weight> stacked_expert(const std::string& name, const Shape& shape);
  Result<const StoredTensor*> require(const std::string& name) const;
  // The refusal of a weight that is stored as nothing that is read: integers, other floats.
  Error other_format(const StoredTensor& data) const;
  // Fails unless `tensor` is one of `types` and has `shape`.
  Status expect(const StoredTensor& tensor, std::initializer_list<StoredType> types,
                const Shape& shape) const;
  Result<float> scalar(const std::string& name);
  std::string in_file(const StoredTensor& tensor) const;
  // Whether a view has a shape only: format() is asked for, and no single number.
  bool is_unread(const StoredTensor& tensor) const { return only_checks_ && tensor.size() != 1; }
  // The elements of `tensor`, at an address that suits their type; F16 as f32.
  Tensor view(const StoredTensor& tensor);
  // The elements of `tensor`, which is F32, BF16, F16 or E8M0, as f32.
  Tensor view_f32(const StoredTensor& tensor);
  Tensor own_scalar(float value);  // [1] f32
  std::byte* own(std::size_t bytes);

  std::shared_ptr<const TensorSource> source_;
  std::vector<std::unique_ptr<std::byte[]>> owned_;
  bool only_checks_ = false;
};

}  // namespace glint
