// Regular expressions: PCRE2 with its just-in-time compiler behind one class. Compiled once, then
// shared by threads; what a search needs to write to is the caller's Scratch.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer/unicode.h"

namespace glint {

class Regex {
 public:
  // Each fails with what is wrong where in the pattern.
  static Result<Regex> from_oniguruma(std::string_view pattern);
  static Result<Regex> from_pcre2(std::string_view pattern);
  static Result<Regex> from_literal(std::string_view text);

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

  bool may_match_nothing() const;

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
  static Result<Regex> compile(std::string_view pattern, unsigned options);

  std::shared_ptr<const Code> code_;
};

// All matches from left to right, an empty one not directly after another match; `visit(begin,
// end)`. False if the search gave up.
template <class Visit>
bool for_each_match(const Regex& regex, std::string_view text, Regex::Scratch& scratch,
                    Visit visit) {
  std::size_t from = 0;
  std::size_t last_end = std::string_view::npos;
  Regex::Match match;
  while (from <= text.size()) {
    const Regex::Outcome outcome = regex.find(text, from, match, scratch);
    if (outcome == Regex::Outcome::kGaveUp) return false;
    if (outcome == Regex::Outcome::kNone) return true;
    if (match.begin == match.end && match.end == last_end) {
      ++from;  // to the next character
      while (from < text.size() && is_continuation(text[from])) ++from;
      continue;
    }
    from = last_end = match.end;
    visit(match.begin, match.end);
  }
  return true;
}

}  // namespace glint
