// SpillFile: floats that do not fit in memory, written in order and read back in that order.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace glint {

class SpillFile {
 public:
  // In the directory `dir`, whose disk must have room for `bytes`. The file has no name there, so
  // that nothing is left of it however the program ends.
  static Result<SpillFile> create(const std::string& dir, std::int64_t bytes);

  // Appends; fails when the disk is full.
  Status write(std::span<const float> values);
  // Reading begins at the start, as often as this is called; the first time ends writing, which may
  // fail as write() does.
  Status rewind();
  // Fills `values` with the next ones. Fails if the file has no more or cannot be read.
  Status read(std::span<float> values);

 private:
  Status checked(bool written) const;

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string dir_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace glint
