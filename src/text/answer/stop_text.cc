#include "text/answer/stop_text.h"

namespace glint {

std::string StopText::feed(std::string_view piece) {
  if (stopped_) return "";
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const int found = finder_.feed(piece[i]);
    if (found < 0) continue;
    stopped_ = true;
    held_ += piece.substr(0, i + 1);
    held_.resize(held_.size() - finder_.text(found).size());
    return flush();
  }
  held_ += piece;
  std::string rest = held_.substr(held_.size() - finder_.pending());
  held_.resize(held_.size() - rest.size());
  return std::exchange(held_, std::move(rest));
}

}  // namespace glint
