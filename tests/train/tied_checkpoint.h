// A copy of a checkpoint whose embedding is its head, in a folder that lives as long as it.
#pragma once

#include <string>

#include "base/test_dir.h"

namespace glint {

class TiedCheckpoint {
 public:
  // The copy is made from `from`, which has one file.
  explicit TiedCheckpoint(const std::string& from);

  const std::string& dir() const { return dir_.path(); }

 private:
  TestDir dir_;
};

}  // namespace glint
