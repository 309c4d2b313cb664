// Identities that cross folders.
#pragma once

#include <cstdint>
#include <vector>

namespace glint {

using TokenId = std::int32_t;
using TokenSequences = std::vector<std::vector<TokenId>>;  // one after another, each on its own
using PageId = std::int32_t;
using RequestId = std::uint64_t;

}  // namespace glint
