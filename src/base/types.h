// Identities that cross folders.
#pragma once

#include <cstdint>
#include <vector>

namespace glint {

using TokenId = std::int32_t;
using TokenSequences = std::vector<std::vector<TokenId>>;  // one after another, each on its own
using PageId = std::int32_t;
using RequestId = std::uint64_t;

inline std::int64_t count_tokens(const TokenSequences& sequences) {
  std::int64_t count = 0;
  for (const std::vector<TokenId>& ids : sequences) count += static_cast<std::int64_t>(ids.size());
  return count;
}

}  // namespace glint
