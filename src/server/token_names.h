// TokenNames: how answers show single tokens: as text, and as the bytes that they stand for.
#pragma once

#include <string>

#include "base/json.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {

inline Json ids_json(const std::vector<TokenId>& ids) {
  return Json::Array(ids.begin(), ids.end());
}

class TokenNames {
 public:
  explicit TokenNames(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}

  // Valid UTF-8: a part of a character is U+FFFD.
  std::string text(TokenId id) const;
  Json bytes_json(TokenId id) const;  // [226, 128, 153]
  // Characters that begin in the token, so that those of several tokens count once.
  std::size_t count_characters(TokenId id) const;

 private:
  Tokenizer tokenizer_;  // a reference to shared parts
};

}  // namespace glint
