// Regular expressions: PCRE2 with its just-in-time compiler behind one class. Compiled once, then
// shared by threads; what a search needs to write to is the caller's Scratch.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/result.h"

namespace glint {

class Regex {
 public:
  // Fails with what is wrong in the pattern.
  static Result<Regex> compile(std::string_view pattern);

  // Memory of one thread's searches, for any Regex.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class Regex;
    struct State;
    std::unique_ptr<State> state_;
  };

  enum class Outcome { kMatch, kNone, kGaveUp };
  struct Match {
    std::size_t begin = 0, end = 0;
  };

  // The leftmost match in `text` (valid UTF-8) that begins at `from` or later; what precedes is
  // seen by lookbehind. kGaveUp: more backtracking than any useful pattern needs (2^28 steps or 256
  // MiB).
  Outcome find(std::string_view text, std::size_t from, Match& match, Scratch& scratch) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}

  std::shared_ptr<const Code> code_;
};

}  // namespace glint
