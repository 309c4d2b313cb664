// SpillFile: floats that do not fit in memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/owned_fd.h"
#include "base/result.h"

namespace glint {

class SpillFile {
 public:
  // In the directory `dir`, whose disk must have room for `bytes`. The file has no name there, so
  // that nothing is left of it however the program ends.
  static Result<SpillFile> create(const std::string& dir, std::int64_t bytes);

  // From float number `first` on, from any thread; fails when the disk is full.
  Status write(std::int64_t first, std::span<const float> values) const;
  // Likewise; fails if the file ends before or cannot be read.
  Status read(std::int64_t first, std::span<float> values) const;

 private:
  std::string dir_;
  OwnedFd file_;
};

}  // namespace glint
