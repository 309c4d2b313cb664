// The "pre_tokenizer" of a tokenizer.json: cuts text into the words that byte-pair encoding works
// on. It knows the patterns of the families that are served, and no others.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/tokenizer/pretokenizer_regex.h"
#include "text/tokenizer/tokenizer_fields.h"

namespace glint {

// Receives words in the order of the text. The view is valid during the call.
using WordSink = std::function<void(std::string_view word)>;

class Pretokenizer {
 public:
  // Splits by known patterns, then ByteLevel. Fails with the name of what is not supported.
  static Result<Pretokenizer> parse(const Json& json);

  // Cuts `text` (valid UTF-8, not empty). Fails only if a pattern gives up on it.
  Status split(std::string_view text, Regex::Scratch& scratch, const WordSink& sink) const;

 private:
  struct Split {
    Regex regex;
    bool keeps_rest;  // what is between matches are words too
  };
  struct Run;  // one call of split

  Status parse_step(const Json& json, const std::string& where, int depth);
  Status parse_split(Fields& fields);
  Status parse_byte_level(Fields& fields);

  std::vector<Split> splits_;
  bool ends_ = false;  // ByteLevel was read
};

}  // namespace glint
