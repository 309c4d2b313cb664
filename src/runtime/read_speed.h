// How fast files are read: what loading a model is measured against.
#pragma once

#include <span>
#include <string>

#include "base/result.h"

namespace glint {

// GB/s at which `threads` threads copy `files` into small buffers, as `cat` would: what the disk
// gives, or the page cache if the files are in it.
Result<double> read_speed(std::span<const std::string> files, int threads);

}  // namespace glint
