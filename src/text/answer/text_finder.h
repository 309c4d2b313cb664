// TextFinder: finds any of several texts in a stream of bytes, one byte at a time, so that what it
// finds cannot depend on the pieces in which the bytes came.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace glint {

class TextFinder {
 public:
  // Empty texts are never found.
  explicit TextFinder(std::vector<std::string> texts);

  // Takes the next byte. Which text ends with it (the longest, if several do), or -1.
  int feed(char byte);

  // How many of the last bytes may be the beginning of a text.
  std::size_t pending() const;

  // Forgets the bytes that came.
  void reset();

  const std::string& text(int i) const { return searches_[static_cast<std::size_t>(i)].text; }

 private:
  struct Search {  // Knuth, Morris, Pratt
    std::string text;
    // For each prefix of `text`: the length of its longest proper suffix that is a prefix too.
    std::vector<std::size_t> border;
    std::size_t matched = 0;  // the last bytes are the first `matched` of the text
  };
  static bool step(Search& search, char byte);

  std::vector<Search> searches_;
  bool starts_[256] = {};  // the first bytes of the texts
  bool active_ = false;    // some text has begun
};

}  // namespace glint
