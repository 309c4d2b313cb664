// A copy of a checkpoint whose embedding is its head, in a folder that lives as long as it.
#pragma once

#include <string>

namespace glint {

class TiedCheckpoint {
 public:
  // The copy is made from `from`, which has one file.
  explicit TiedCheckpoint(const std::string& from);
  ~TiedCheckpoint();
  TiedCheckpoint(const TiedCheckpoint&) = delete;
  TiedCheckpoint& operator=(const TiedCheckpoint&) = delete;

  const std::string& dir() const { return dir_; }

 private:
  std::string dir_;
};

}  // namespace glint
