// StopText: passes text on until one of the stop strings is complete in it, whatever the pieces it
// comes in. The first to be complete counts, the longest of those.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/answer/text_finder.h"

namespace glint {

class StopText {
 public:
  // Empty strings are ignored.
  explicit StopText(std::vector<std::string> stops) : finder_(std::move(stops)) {}

  // Takes the next piece and returns what can be shown for certain: text that may be the beginning
  // of a stop string is held back. After a stop, nothing more comes.
  std::string feed(std::string_view piece);

  // The rest that is still held back, at the end of the text. Empty after a stop.
  std::string flush() { return std::exchange(held_, {}); }

  bool stopped() const { return stopped_; }

 private:
  TextFinder finder_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace glint
