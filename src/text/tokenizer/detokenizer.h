// Tokens to text as they are generated: each call gives the text that no later token can change.
#pragma once

#include <string>
#include <utility>

#include "base/types.h"
#include "base/utf8.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {

class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Valid UTF-8, never a part of a character; often nothing. All calls together and `flush` give
  // what Tokenizer::decode gives for all ids at once.
  std::string feed(TokenId id) {
    held_ += tokenizer_.token_bytes(id);
    std::string text;
    held_.erase(0, append_lossy_utf8(text, held_, /*last=*/false));
    return text;
  }

  // The rest, when no token follows: U+FFFD for an unfinished character. Call it once, last.
  std::string flush() { return lossy_utf8(std::exchange(held_, {})); }

 private:
  const Tokenizer tokenizer_;  // a reference to shared parts
  std::string held_;           // the beginning of a character
};

}  // namespace glint
