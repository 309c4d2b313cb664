// The "pre_tokenizer" of a tokenizer.json: cuts text into the words that byte-pair encoding works
// on.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pretokenizer_regex.h"
#include "text/tokenizer/tokenizer_fields.h"

namespace glint {

// Receives words in the order of the text. The view is valid during the call.
class WordSink {
 public:
  virtual void word(std::string_view word) = 0;

 protected:
  ~WordSink() = default;
};

class Pretokenizer {
 public:
  // Null gives each text as one word. Fails with the name of what is not supported.
  static Result<Pretokenizer> parse(const Json& json);

  // Whether words are bytes of the text, to be read through the byte alphabet (the last step is
  // ByteLevel), rather than text in its letters.
  bool gives_bytes() const { return gives_bytes_; }

  // Cuts `text` (valid UTF-8, not empty), whose first `start` bytes come from the first character
  // of the whole input. Fails only if a pattern of the file gives up on the text.
  Status split(std::string_view text, std::size_t start, Regex::Scratch& scratch,
               WordSink& sink) const;

 private:
  enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  struct Split {
    Regex regex;
    Behavior behavior;
    bool invert;
  };
  struct PrefixSpace {};
  struct ByteLetters {};
  struct Metaspace {
    std::string replacement;
    enum { kAlways, kFirst, kNever } prepend;
  };
  using Step = std::variant<Split, PrefixSpace, ByteLetters, Metaspace>;
  struct Run;  // one call of split

  Status parse_step(const Json& json, const std::string& where, int depth, GrowthLimit& growth);
  Status parse_split(Fields& fields);
  Status parse_byte_level(Fields& fields, GrowthLimit& growth);
  Status parse_metaspace(Fields& fields, GrowthLimit& growth);
  void add_split(std::string_view pcre2_pattern, Behavior behavior, bool invert);
  static Result<Behavior> parse_behavior(const std::string& name, const std::string& where);

  std::vector<Step> steps_;
  bool gives_bytes_ = false;
};

}  // namespace glint
