// Gradients as a safetensors file, under the names of a checkpoint's parameters.
#pragma once

#include <string>

#include "train/parameters.h"

namespace glint {

// Fails where the file could not be written: before what takes long.
Status check_gradient_file(const Parameters& parameters, const std::string& path);

// Writes every gradient in f32 as a checkpoint names its parameter: experts one by one, kv_b_proj
// in one piece, in the order of the table. Replaces what stands under `path`, when it is complete.
Status write_gradients(const Parameters& parameters, Device& device, const std::string& path);

// The 2-norm of all gradients together.
double norm_of(const Parameters& parameters, Device& device);

}  // namespace glint
