// Identities that cross folders.
#pragma once

#include <cstdint>

namespace glint {

using TokenId = std::int32_t;
using PageId = std::int32_t;
using RequestId = std::uint64_t;

}  // namespace glint
