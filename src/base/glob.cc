#include "base/glob.h"

namespace glint {

bool glob_matches(std::string_view glob, std::string_view text) {
  std::size_t g = 0, t = 0;
  std::size_t star = glob.npos, star_text = 0;  // where to go on after a mismatch
  const auto in_class = [&](std::size_t begin, std::size_t end, char c) {
    const bool negated = begin < end && glob[begin] == '!';
    bool found = false;
    for (std::size_t i = begin + negated; i < end; ++i) {
      if (i + 2 < end && glob[i + 1] == '-') {
        found = found || (glob[i] <= c && c <= glob[i + 2]);
        i += 2;
      } else {
        found = found || glob[i] == c;
      }
    }
    return found != negated;
  };
  while (t < text.size() || g < glob.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = ++g;
      star_text = t;
      continue;
    }
    if (g < glob.size() && t < text.size()) {
      std::size_t next = g + 1;
      bool matches = glob[g] == '?' || glob[g] == text[t];
      if (glob[g] == '[') {
        // A ']' that comes first stands for itself; without an end the '[' does.
        const std::size_t begin = g + 1;
        const std::size_t skip = begin + (begin < glob.size() && glob[begin] == '!');
        const std::size_t end = glob.find(']', skip + 1);
        if (end != glob.npos) {
          matches = in_class(begin, end, text[t]);
          next = end + 1;
        }
      }
      if (matches) {
        g = next;
        ++t;
        continue;
      }
    }
    if (star == glob.npos || star_text >= text.size()) return false;
    g = star;
    t = ++star_text;
  }
  return true;
}

}  // namespace glint
