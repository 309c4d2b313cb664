#include "net/secret.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <array>

namespace glint {
namespace {

std::array<unsigned char, SHA256_DIGEST_LENGTH> digest(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> out;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
  return out;
}

}  // namespace

// Digests are of one length, and what their comparison tells about them tells nothing of the texts.
bool same_secret(std::string_view given, std::string_view secret) {
  const auto a = digest(given), b = digest(secret);
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace glint
