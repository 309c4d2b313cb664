// Gradients as a safetensors file, under the names of a checkpoint's parameters.
#pragma once

#include <string>
#include <vector>

#include "train/train_ranks.h"

namespace glint {

// Fails where the file could not be written: before what takes long.
Status check_gradient_file(std::span<const ModelTensor> tensors, const std::string& path);

// The gradient of a parameter, or of the part that a rank has, as Parameters::values_of() has it,
// in the order of the checkpoint.
std::vector<float> gradient_of(const Parameter& parameter, std::span<const float> values);
// The gradient of `tensor`, in the order of the checkpoint, of the parts that ranks have of it
// after sum_gradients().
std::vector<float> whole_gradient(TrainRanks& ranks, const ModelTensor& tensor);

// Writes every gradient in f32 as a checkpoint names its parameter: experts one by one, kv_b_proj
// in one piece, in the order of the table. Replaces what stands under `path`, when it is complete.
Status write_gradients(TrainRanks& ranks, const std::string& path);

// The 2-norm of all gradients together.
double norm_of(TrainRanks& ranks);

}  // namespace glint
