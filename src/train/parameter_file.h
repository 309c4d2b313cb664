// Numbers of all parameters as a safetensors file in f32, under the names and in the shapes of the
// checkpoint: experts one by one, kv_b_proj in one piece, in the order of the table.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/shard.h"
#include "train/parameters.h"

namespace glint {

std::vector<TensorSpec> specs_of(std::span<const ModelTensor> tensors);
std::int64_t bytes_of(std::span<const TensorSpec> specs);

// The numbers of one parameter, or of a rank's part of it, in the order of the checkpoint, from
// those in the order of its gradient (which differ of kv_b_proj only); and back.
void to_checkpoint_order(const Parameter& p, std::span<const float> values,
                         std::span<float> stored);
void from_checkpoint_order(const Parameter& p, std::span<const float> stored,
                           std::span<float> values);

// Writes `path`, synced. `numbers_of` gives the numbers of all of a tensor in the order of the
// checkpoint, by its place in `tensors`; they may be gone when it is called again.
Status write_parameter_file(std::span<const ModelTensor> tensors,
                            const std::function<std::span<const float>(std::size_t)>& numbers_of,
                            const std::string& path);

// Reads such a file: take(i, numbers) for each of `tensors` in order. Fails, naming the tensor, on
// a file of others, and as `take` does.
Status read_parameter_file(std::span<const ModelTensor> tensors, const std::string& path,
                           const std::function<Status(std::size_t, std::span<const float>)>& take);

}  // namespace glint
