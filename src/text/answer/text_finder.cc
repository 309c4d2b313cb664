#include "text/answer/text_finder.h"

#include <algorithm>

namespace glint {

TextFinder::TextFinder(std::vector<std::string> texts) {
  searches_.reserve(texts.size());
  for (std::string& text : texts) {
    if (!text.empty()) starts_[static_cast<unsigned char>(text[0])] = true;
    std::vector<std::size_t> border(text.size() + 1, 0);
    for (std::size_t n = 1, k = 0; n < text.size(); ++n) {
      while (k > 0 && text[n] != text[k]) k = border[k];
      if (text[n] == text[k]) ++k;
      border[n + 1] = k;
    }
    searches_.push_back({std::move(text), std::move(border)});
  }
}

bool TextFinder::step(Search& search, char byte) {
  const std::string& text = search.text;
  std::size_t& matched = search.matched;
  if (matched == text.size()) matched = search.border[matched];
  while (matched > 0 && text[matched] != byte) matched = search.border[matched];
  if (!text.empty() && text[matched] == byte) ++matched;
  return matched > 0 && matched == text.size();
}

int TextFinder::feed(char byte) {
  if (!active_ && !starts_[static_cast<unsigned char>(byte)]) return -1;
  active_ = false;
  int found = -1;
  for (std::size_t i = 0; i < searches_.size(); ++i) {
    const bool ends = step(searches_[i], byte);
    active_ = active_ || searches_[i].matched > 0;
    if (ends && (found < 0 || searches_[i].text.size() > text(found).size()))
      found = static_cast<int>(i);
  }
  return found;
}

std::size_t TextFinder::pending() const {
  std::size_t most = 0;
  for (const Search& search : searches_) {
    // A whole text was found already; only what may begin another one is pending.
    const bool whole = search.matched == search.text.size();
    most = std::max(most, whole ? search.border[search.matched] : search.matched);
  }
  return most;
}

void TextFinder::reset() {
  for (Search& search : searches_) search.matched = 0;
  active_ = false;
}

}  // namespace glint
