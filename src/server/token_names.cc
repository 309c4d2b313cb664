#include "server/token_names.h"

#include <algorithm>

#include "base/utf8.h"

namespace glint {

std::string TokenNames::text(TokenId id) const { return tokenizer_.decode({&id, 1}); }

Json TokenNames::bytes_json(TokenId id) const {
  Json::Array list;
  for (const char byte : tokenizer_.token_bytes(id))
    list.push_back(static_cast<unsigned char>(byte));
  return list;
}

std::size_t TokenNames::count_characters(TokenId id) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      tokenizer_.token_bytes(id), [](char byte) { return !is_continuation(byte); }));
}

}  // namespace glint
