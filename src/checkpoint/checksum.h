// The checksum of a checkpoint's weights: of names, formats, shapes and bytes, not of how they lie
// in files. Against what is cut, old or mixed up, not against people who choose bytes.
#pragma once

#include <string>

#include "checkpoint/tensor_source.h"

namespace glint {

class ThreadPool;

std::string checksum_of(const TensorSource& source, ThreadPool& pool);

}  // namespace glint
