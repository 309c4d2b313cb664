#include "text/stop_text.h"

#include <algorithm>
#include <utility>

namespace glint {

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
}

std::string StopText::feed(std::string_view piece) {
  if (stopped_) return "";
  held_ += piece;
  std::size_t cut = std::string::npos;
  for (const std::string& stop : stops_) cut = std::min(cut, held_.find(stop));
  if (cut != std::string::npos) {
    stopped_ = true;
    return std::exchange(held_, {}).substr(0, cut);
  }
  // The longest end of held_ that is the beginning of a stop string.
  std::size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n) {
      if (held_.ends_with(std::string_view(stop).substr(0, n))) keep = n;
    }
  }
  std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return certain;
}

std::string StopText::flush() { return std::exchange(held_, {}); }

}  // namespace glint
