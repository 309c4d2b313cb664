// Whether a source is the one that an earlier run read.
#pragma once

#include <string>

#include "checkpoint/tensor_source.h"

namespace glint {

// A hash of config.json, of every name, type and shape, and of samples of each file's data: two
// checkpoints of one architecture differ in these.
std::string source_fingerprint(const TensorSource& source, const std::string& config);

// A hash of the times when the files were last changed: for a change that the samples miss.
std::string source_times(const TensorSource& source);

}  // namespace glint
