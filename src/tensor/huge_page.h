// The unit in which the host's device takes large memory from the system.
#pragma once

#include <cstdint>

namespace glint {

inline constexpr std::int64_t kHugePage = std::int64_t{2} << 20;  // bytes

}  // namespace glint
