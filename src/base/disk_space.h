// Room on a disk for what is going to be written: asked for, and reserved.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace glint {

// Fails if fewer than `bytes` are free where `path` is going to be. To be asked before
// reserve_space(), because some file systems fill the disk before they fail.
Status check_free_space(const std::string& path, std::int64_t bytes);

// Gives the new file `fd` that size, and its space on the disk where the file system can reserve
// any. What is not written is zero.
Status reserve_space(int fd, const std::string& path, std::int64_t bytes);

}  // namespace glint
