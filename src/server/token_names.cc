#include "server/token_names.h"

#include "text/tokenizer/tokenizer_bytes.h"

namespace glint {

std::string TokenNames::text(TokenId id) const { return tokenizer_.decode({&id, 1}); }

std::string TokenNames::bytes(TokenId id) const {
  std::string whole = text(id);
  if (whole.find("\xef\xbf\xbd") == std::string::npos) return whole;
  const auto token = tokenizer_.id_to_token(id);
  if (!token) return whole;
  return letters_to_bytes(*token).value_or(whole);
}

Json TokenNames::bytes_json(TokenId id) const {
  Json::Array list;
  for (const char byte : bytes(id)) list.push_back(static_cast<unsigned char>(byte));
  return list;
}

}  // namespace glint
