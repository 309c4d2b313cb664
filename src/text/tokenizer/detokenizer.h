// Tokens to text as they are generated: each call gives the text that no later token can change.
#pragma once

#include <string>

#include "base/types.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {

class Detokenizer {
 public:
  // `skip_special`: special tokens give no text.
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = false)
      : tokenizer_(tokenizer), skip_special_(skip_special), stream_(tokenizer_.decoder()) {}

  // Valid UTF-8, never a part of a character; often nothing. All calls together and `flush` give
  // what Tokenizer::decode gives for all ids at once.
  std::string feed(TokenId id) {
    if (const auto token = tokenizer_.decoded_token(id, skip_special_)) stream_.add(*token);
    return stream_.take();
  }

  // The rest, when no token follows: U+FFFD for an unfinished character. Call it once, last.
  std::string flush() {
    stream_.finish();
    return stream_.take();
  }

 private:
  const Tokenizer tokenizer_;  // a reference to shared parts
  const bool skip_special_;
  Decoder::Stream stream_;
};

}  // namespace glint
