#include "server/token_names.h"

namespace glint {

std::string TokenNames::text(TokenId id) const { return tokenizer_.decode({&id, 1}); }

Json TokenNames::bytes_json(TokenId id) const {
  Json::Array list;
  for (const char byte : tokenizer_.token_bytes(id))
    list.push_back(static_cast<unsigned char>(byte));
  return list;
}

}  // namespace glint
