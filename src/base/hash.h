// FNV-1a: 64 bits of a text, the same in every program. Not against people who choose texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/str.h"

namespace glint {

constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// A hash as checksums are told: 16 hexadecimal digits.
inline std::string hex_of(std::uint64_t hash) {
  return formatted("%016llx", static_cast<unsigned long long>(hash));
}

}  // namespace glint
