// StopText: passes text on until one of the stop strings appears in it, whatever the pieces it
// comes in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace glint {

class StopText {
 public:
  // Empty strings are ignored.
  explicit StopText(std::vector<std::string> stops);

  // Takes the next piece and returns what can be shown for certain: text that may be the beginning
  // of a stop string is held back. After a stop, nothing more comes.
  std::string feed(std::string_view piece);

  // What is still held back, at the end of the text. Nothing after a stop.
  std::string flush();

  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace glint
